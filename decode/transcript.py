"""Transcripts: text made on one engine, token by token, and verified on another, in one pass.

A verifier runs prompt and tokens as rows it knows beforehand, which the contract makes byte for byte equal to decoding
them, and asks of each row: has it the digest that was written, and is the next token what the sampler draws from it?
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from gnomon.decode.loaded import differing, loaded
from gnomon.decode.transcript_file import Header, Recorder, Token, Transcript, TranscriptError, parse, row_digest
from gnomon.reference.chain import canonical
from gnomon.reference.engine import Engine
from gnomon.reference.errors import GnomonError, UsageError
from gnomon.reference.ops.sample import Sampling, sample
from gnomon.reference.protocol import F32, Rows
from gnomon.reference.row_counts import chooses_by_rows
from gnomon.reference.token_ids import token_ids

GREEDY = Sampling(temperature=0.0)
PIECE_BYTES = 32 << 20  # of logits of a step of the verifier
PIECE_ROWS = chooses_by_rows("decode.transcript.PIECE_ROWS", 512)  # of a step that needs no logits


class IncomparableError(GnomonError):
    """The transcript is of something else than what is loaded: neither right nor wrong. field: which, of the config by
    its name there, such as "rope.theta" """

    exit_code = 3

    def __init__(self, field: str, written: object, loaded: object) -> None:
        super().__init__(
            f"Expected a transcript of {field}={_word(loaded)}, which is loaded, but this one is of "
            f"{field}={_word(written)}; load what it is of"
        )
        self.field, self.written, self.loaded = field, written, loaded


def header(
    engine: Engine[Any], prompt: Sequence[int], max_tokens: int, sampling: Sampling = GREEDY, stop: Sequence[int] = ()
) -> Header:
    """What a transcript of this engine begins with. Raises UsageError for what cannot be run to its end."""
    prompt, stop, config = token_ids(prompt), token_ids(list(stop)), engine.model.config
    if not prompt or max_tokens < 1:
        raise UsageError(f"Expected a prompt and max_tokens of at least 1 but got {len(prompt)} ids, {max_tokens}")
    positions, limit = len(prompt) + max_tokens - 1, config.max_positions
    if positions > limit:
        raise UsageError(
            f"Expected prompt and tokens to fit into max_positions={limit} but {len(prompt)} ids and "
            f"{max_tokens} tokens take {positions}; ask for fewer tokens"
        )
    return Header(
        **asdict(loaded(engine)),
        prompt=tuple(prompt),
        max_tokens=int(max_tokens),
        sampling=plain(sampling, config.vocab),
        stop=tuple(sorted(set(stop))),
    )


def plain(sampling: Sampling, vocab: int) -> Sampling:
    """The one way to write parameters down: temperature as the f32 number that counts, top_k=0 where all ids are
    kept, and what greedy choice does not read as top_k=0, top_p=1, seed=0. So no field can be changed unseen."""
    temperature = float(np.float32(sampling.temperature))
    if temperature == 0.0:
        return GREEDY
    top_k = int(sampling.top_k) if sampling.top_k < vocab else 0
    return Sampling(temperature, top_k, float(sampling.top_p), int(sampling.seed))


def produce(
    engine: Engine[Any],
    prompt: Sequence[int],
    max_tokens: int,
    sampling: Sampling = GREEDY,
    stop: Sequence[int] = (),
    *,
    key: bytes | None = None,
    told: Callable[[int], None] = lambda token: None,
) -> Recorder:
    """Decode token by token and keep the transcript; a stop id ends it and is its last token.

    key: 32 bytes of an Ed25519 key, to sign it with; told: each token as it comes
    """
    asked = header(engine, prompt, max_tokens, sampling, stop)
    recorder = Recorder(asked)
    logits, state = engine.forward(asked.prompt)
    while True:
        token = sample(logits[-1], asked.sampling, state.length - 1)
        recorder.add(token, logits[-1])
        told(token)
        if token in asked.stop or len(recorder.ids) == max_tokens:
            recorder.close("stop" if token in asked.stop else "length", key)
            return recorder
        logits, state = engine.forward([token], state)


def verify(
    engine: Engine[Any], transcript: Transcript, told: Callable[[int, int], None] = lambda done, total: None
) -> None:
    """One forward over prompt and tokens, in pieces where the logits would take much memory.

    told: tokens verified, tokens in all. Raises IncomparableError where the transcript is of something else than what
    is loaded, TranscriptError with the index of the first token that does not follow; the index is the number of
    tokens where all of them follow and the end does not.
    """
    asked, tokens = transcript.header, transcript.tokens
    check_loaded(engine, asked)
    check_asked(engine, asked)
    end, why = furthest(engine, transcript)
    for i, row in enumerate(rows(engine, asked.prompt, [token.id for token in tokens[: end - 1]])):
        check_token(i, tokens[i], row, asked)
        told(i + 1, len(tokens))
    if end < len(tokens):
        raise TranscriptError(end, f"Expected {why} but token {end} follows")
    stopped = tokens[-1].id in asked.stop
    if stopped != (transcript.reason == "stop"):
        is_one = "is one" if stopped else "is none"
        raise TranscriptError(
            end,
            f"Expected the reason stop exactly after a stop id but got {transcript.reason} and the last id {is_one}",
        )
    if not stopped and end < asked.max_tokens:
        raise TranscriptError(
            end, f"Expected {asked.max_tokens} tokens, as max_tokens says, but the text ends at {end}"
        )


def verify_lines(engine: Engine[Any], lines: Sequence[str]) -> None:
    """`verify` of the lines of a file."""
    verify(engine, parse(lines))


def check_loaded(engine: Engine[Any], asked: Header) -> None:
    """Raises IncomparableError for the first field in which transcript and engine differ."""
    for field, ours, theirs in differing(loaded(engine), asked):
        raise IncomparableError(field, theirs, ours)


def check_asked(engine: Engine[Any], asked: Header) -> None:
    """Raises TranscriptError, before anything is run, for what no token can follow from."""
    config = engine.model.config
    for name, ids in (("prompt", asked.prompt), ("stop", asked.stop)):
        if any(i >= config.vocab for i in ids):
            raise TranscriptError(0, f"Expected ids below {config.vocab} in {name} but got {max(ids)}")
    if len(asked.prompt) > config.max_positions:
        raise TranscriptError(
            0, f"Expected a prompt of at most max_positions={config.max_positions} ids but got {len(asked.prompt)}"
        )
    own = plain(asked.sampling, config.vocab)
    if canonical(asdict(own)) != canonical(asdict(asked.sampling)):
        raise TranscriptError(0, f"Expected sampling parameters to be written as {own} but got {asked.sampling}")


def furthest(engine: Engine[Any], transcript: Transcript) -> tuple[int, str]:
    """How many tokens can follow at all, and why no more: the first of what ends a text."""
    asked, tokens = transcript.header, transcript.tokens
    config = engine.model.config
    ends = [(asked.max_tokens, f"at most max_tokens={asked.max_tokens} tokens")]
    ends.append((config.max_positions - len(asked.prompt) + 1, f"at most max_positions={config.max_positions}"))
    for i, token in enumerate(tokens):
        if token.id in asked.stop:
            ends.append((i + 1, f"the text to end with the stop id {token.id}"))
            break
        if token.id >= config.vocab:  # it is wrong itself, and nothing can be run after it
            ends.append((i + 1, f"ids below {config.vocab}"))
            break
    ends.append((len(tokens), ""))
    return min(ends, key=lambda pair: pair[0])


def check_token(index: int, token: Token, row: F32, asked: Header) -> None:
    """Raises TranscriptError unless the row is the one that was written and the token is drawn from it."""
    digest = row_digest(row)
    if digest != token.logits:
        raise TranscriptError(
            index,
            f"Expected token {index} to be chosen from logits of sha256 {_word(digest)} but they are written as "
            f"{_word(token.logits)}: prompt, earlier tokens or engine were other ones",
        )
    drawn = sample(row, asked.sampling, len(asked.prompt) - 1 + index)
    if drawn != token.id:
        raise TranscriptError(index, f"Expected token {index} to be {drawn}, as it is drawn, but got {token.id}")


def rows(engine: Engine[Any], prompt: Sequence[int], ids: Sequence[int]) -> Iterator[F32]:
    """The rows of logits after the prompt and after each of `ids`, computed in pieces of several rows: [vocab] each"""
    known, first = [*prompt, *ids], len(prompt) - 1  # the row of the last id of the prompt is the first that counts
    size = max(1, min(PIECE_ROWS, PIECE_BYTES // (4 * engine.model.config.vocab)))
    state = engine.new()
    for start in range(0, first, PIECE_ROWS):
        engine.step(Rows.of([(state, known[start : min(start + PIECE_ROWS, first)])]), "none")
    for start in range(first, len(known), size):
        yield from engine.step(Rows.of([(state, known[start : start + size])]), "all")


def _word(value: object) -> str:
    """A digest shortened; anything else as it is."""
    text = "none" if value is None else str(value)
    return f"{text[:16]}..." if len(text) == 64 else text
