"""Transcripts for tests: sampled text of micro, ended by length and by a stop id, and how a verifier rejects."""

from typing import Any

import pytest

import gnomon
from gnomon.decode.transcript import produce, verify
from gnomon.decode.transcript_file import TranscriptError, parse
from gnomon.reference.ops.sample import Sampling

PROMPT = [11, 21, 45, 83, 38, 7]
TOKENS = 24
SAMPLED = Sampling(1.5, 60, 0.95, 12)


def sampled_text(engine: gnomon.Engine[Any]) -> list[str]:
    """The lines of a transcript of TOKENS ids behind PROMPT."""
    return produce(engine, PROMPT, TOKENS, SAMPLED).chain.lines


def stopped_text(engine: gnomon.Engine[Any]) -> list[str]:
    """The same text, ended by an id that it draws at token 9 for the first time."""
    ids = produce(engine, PROMPT, TOKENS, SAMPLED).ids
    never = min({*range(97)} - {*ids})
    assert ids[9] not in ids[:9], ids
    return produce(engine, PROMPT, TOKENS, SAMPLED, [ids[9], never]).chain.lines


def rejection(engine: gnomon.Engine[Any], lines: list[str]) -> TranscriptError:
    """With what a verifier rejects the lines; fails where it does not."""
    with pytest.raises(TranscriptError) as caught:
        verify(engine, parse(lines))
    assert caught.value.exit_code == 1, caught.value
    return caught.value
