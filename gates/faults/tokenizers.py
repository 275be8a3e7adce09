"""Broken tokenizers: the embedded file, changed and read again."""

import json
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from gnomon import models
from gnomon.gates.gate import Fault, Subject
from gnomon.reference.model import Model
from gnomon.reference.tokenizer import Tokenizer


def changed(change: Callable[[dict[str, Any]], object]) -> Fault:
    """Models come with the tokenizer of a changed tokenizer.json."""

    def apply(subject: Subject) -> Subject:
        def load(source: str | Path) -> Model:
            model = subject.load(source)
            if model.tokenizer is None:
                return model
            tree = json.loads((models.folder(str(source)) / "tokenizer.json").read_text("utf-8"))
            change(tree)
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "tokenizer.json"
                path.write_text(json.dumps(tree), "utf-8")
                return replace(model, tokenizer=Tokenizer.from_json(path))

        return replace(subject, load=load)

    return apply


def skip_one(tree: dict[str, Any]) -> None:
    """The first merge, of a pair that is in every text."""
    del tree["model"]["merges"][0]


def cut(tree: dict[str, Any]) -> None:
    del tree["model"]["merges"][-100:]


def exchange(tree: dict[str, Any]) -> None:
    """The symbols of bytes 0xC3 and 0xC4, which begin letters with accents, stand for each other."""
    swap = str.maketrans("\u00c3\u00c4", "\u00c4\u00c3")
    model = tree["model"]
    model["vocab"] = {token.translate(swap): i for token, i in model["vocab"].items()}
    model["merges"] = [[part.translate(swap) for part in parts(pair)] for pair in model["merges"]]


def parts(pair: str | list[str]) -> list[str]:
    return pair.split(" ") if isinstance(pair, str) else pair


without_merge = changed(skip_one)
without_last_merges = changed(cut)
other_alphabet = changed(exchange)


def strips(subject: Subject) -> Subject:
    """Text is cut at its ends, as by a normaliser that nobody asked for."""

    def load(source: str | Path) -> Model:
        model = subject.load(source)
        if model.tokenizer is not None:
            encode = model.tokenizer.encode
            setattr(model.tokenizer, "encode", lambda text, **named: encode(text.strip(), **named))  # noqa: B010
        return model

    return replace(subject, load=load)
