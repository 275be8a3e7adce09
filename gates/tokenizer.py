"""Token ids against those that the `tokenizers` library gave, and the parts that make them, pinned."""

import hashlib

from gnomon.gates.faults import tokenizers as broken
from gnomon.gates.gate import Gate, Header, Outcome, Subject, VoidError
from gnomon.gates.golden import golden
from gnomon.reference.tokenizer import Tokenizer

HEADER = Header(
    name="tokenizer",
    question="Does the tokenizer of the embedded model give the ids of the library that made it?",
    instrument="texts of many kinds against gates/golden/tokenizer.json, whose ids are those of the library; "
    "SHA-256 of the alphabet (the id of every single byte), of the bytes of every id, of all parts, merges included",
    threshold="every id equal, every text decoded to itself, every hash the pinned one",
    disproof="a text whose ids differ from the library's",
    void="no text is stored, the model has no tokenizer",
)


def run(subject: Subject) -> Outcome:
    stored = golden("tokenizer")
    tokenizer = subject.load(stored["model"]).tokenizer
    if tokenizer is None or not stored["texts"]:
        raise VoidError("no tokenizer, or no text to encode")
    pins = hashes(tokenizer)
    ids = 0
    for text, expected in stored["texts"]:
        got = tokenizer.encode(text)
        if got != expected:
            return Outcome("FAIL", f"{text!r:.60} gives {got[:8]}, expected {expected[:8]}; pins that differ: "
                           f"{', '.join(name for name in pins if pins[name] != stored[name]) or 'none'}")  # fmt: skip
        if tokenizer.decode(got) != text:
            return Outcome("FAIL", f"{text!r:.60} comes back as {tokenizer.decode(got)!r:.60}")
        ids += len(got)
    for name, value in pins.items():
        if value != stored[name]:
            return Outcome("FAIL", f"{name}: sha256 {value[:12]}, pinned is {stored[name][:12]}")
    return Outcome("PASS", "", {"texts": len(stored["texts"]), "ids": ids, "pins": len(pins)})


def hashes(tokenizer: Tokenizer) -> dict[str, str]:
    """What is pinned, read from the tokenizer that runs."""
    pieces = [tokenizer.token_bytes(i) for i in range(tokenizer.vocab_size)]
    single = {piece[0]: i for i, piece in enumerate(pieces) if len(piece) == 1}
    alphabet = ",".join(str(single.get(byte, -1)) for byte in range(256))
    vocabulary = b"".join(len(piece).to_bytes(4, "little") + piece for piece in pieces)
    return {
        "alphabet": hashlib.sha256(alphabet.encode()).hexdigest(),
        "vocabulary": hashlib.sha256(vocabulary).hexdigest(),
        "merges": tokenizer.digest,
    }


GATE = Gate(
    HEADER,
    run,
    {
        "one merge is skipped": (broken.without_merge, "pins that differ: merges"),
        "the last 100 merges are cut": (broken.without_last_merges, "pins that differ: merges"),
        "one byte of the alphabet is changed": (broken.other_alphabet, "pins that differ: alphabet"),
        "spaces are cut off": (broken.strips, "gives [], expected"),
    },
    per_engine=False,
)
