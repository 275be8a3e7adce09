"""A mutation fuzzer over every kind of file that the program reads, and over the bodies that a node is sent.

    make fuzz                                       20,000 cases, with a progress line
    cd tests && python -m fuzz --cases 0:2000       some of them
    cd tests && python -m fuzz --case 1234          one, with what it wrote and printed

Case n of seed s is always the same: sound files that the project wrote (seeds.py), one of them mutated as bytes or in
its structure, with digests and chains made again where that lets inner checks be reached, and one verb that reads it
(kinds.py), or requests to a node (node.py). Cases run in forked processes with a limit of memory (runner.py); a case
fails that ends in a traceback, in exit code 4, in a signal, in no end, with too much memory, or with a half-written file.
"""
