"""Verifiers of transcripts that leave something out."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NoReturn

import numpy as np

from gnomon.decode.loaded import loaded
from gnomon.decode.transcript import check_loaded
from gnomon.decode.transcript_file import TranscriptError, parse, row_digest
from gnomon.gates.gate import AnyEngine, Fault, Subject
from gnomon.reference.chain import Chain
from gnomon.reference.ops.sample import sample
from gnomon.reference.protocol import F32


def lax(
    *,
    chain: bool = True,
    identity: bool = True,
    config: bool = True,
    digests: int = 1 << 30,
    draws: bool = True,
    greedy: bool = False,
    shift: int = 0,
    late: int = 0,
    skipped: int = 0,
    first: int = 0,
    end: bool = True,
) -> Fault:
    """A plain verifier; each keyword leaves something out or moves it, its default does not.

    digests: how many are compared; shift: of the position; late: of the row; skipped: tokens at the end; first: index
    of the first token
    """

    def verify(engine: AnyEngine, lines: Sequence[str]) -> None:
        transcript = parse(lines if chain else resealed(lines))
        asked, ids = transcript.header, [token.id for token in transcript.tokens]
        if identity:
            check_loaded(engine, asked if config else replace(asked, config=loaded(engine).config))
        vocab, start = engine.model.config.vocab, len(asked.prompt) - 1
        logits, _ = engine.forward([*asked.prompt, *(min(i, vocab - 1) for i in ids)], want="all")
        for i, token in enumerate(transcript.tokens[: len(ids) - skipped]):
            row: F32 = logits[start + i + late]
            drawn = int(np.argmax(row)) if greedy else sample(row, asked.sampling, start + i + shift)
            if (i < digests and row_digest(row) != token.logits) or (draws and drawn != token.id):
                raise TranscriptError(first + i, "the token does not follow")
            if i == asked.max_tokens or (i and ids[i - 1] in asked.stop):
                raise TranscriptError(first + i, "the text had ended")
        stopped = ids[-1] in asked.stop
        if end and (stopped != (transcript.reason == "stop") or (not stopped and len(ids) < asked.max_tokens)):
            raise TranscriptError(len(ids), "the text had not ended")

    return with_verifier(verify)


def resealed(lines: Sequence[str]) -> list[str]:
    """The lines with a chain that holds, whatever it was before."""
    made = Chain()
    for line in lines[:-1]:
        made.append({k: v for k, v in json.loads(line).items() if k not in ("prev", "hash", "end", "reason")})
    made.close(json.loads(lines[-1]).get("reason", "length") if lines else "length")
    return made.lines


def rejects_all(subject: Subject) -> Subject:
    def verify(engine: AnyEngine, lines: Sequence[str]) -> NoReturn:
        raise TranscriptError(0, "no")

    return with_verifier(verify)(subject)


def with_verifier(verify: Callable[[AnyEngine, Sequence[str]], None]) -> Fault:
    return lambda subject: replace(subject, verify_transcript=verify)
