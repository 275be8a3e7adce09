"""A mutation fuzzer over every kind of file that the program reads, and over the bodies that a node is sent.

    cd tests
    python -m fuzz --cases 0:2000                   those of `make test`; `make test-wide` runs 20,000
    python -m fuzz --case 1234                      one of them, with what it printed
    python -m fuzz --kind gguf --seed 5             others
    python -m fuzz.plants                           faults that the fuzzer must see

Case n of seed s is always the same: sound files that the project wrote (seeds.py), one of them mutated as bytes or in
its structure, with digests and chains made again where that lets inner checks be reached, and one verb that reads it
(kinds.py), or requests to a node (node.py). Cases run in forked processes with a limit of memory (runner.py). A case
fails that ends in a traceback, in exit code 4, in a signal, in no end, with too much memory, with half a file, or with
--json that is none.
"""
