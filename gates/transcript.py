"""A transcript of an engine verifies on any engine, and no forged one does."""

import json
from collections.abc import Sequence
from typing import Any

from gnomon.decode.transcript import IncomparableError, produce
from gnomon.decode.transcript_file import TranscriptError
from gnomon.gates.faults import engines
from gnomon.gates.faults import transcripts as broken
from gnomon.gates.gate import AnyEngine, FailedError, Gate, Header, Outcome, Subject, VoidError
from gnomon.gates.run import FAULT_MODEL
from gnomon.gates.tally import prompts, whole
from gnomon.reference.chain import Chain
from gnomon.reference.ops.sample import Sampling, sample
from gnomon.reference.protocol import F32

HEADER = Header(
    name="transcript",
    question="Does a transcript made on an engine verify on it and on the reference, and a forged one on none?",
    instrument="transcripts of greedy and of sampled text, ended by length and by a stop id; copies with one field "
    "changed, whose chain holds again; copies whose chain is broken; copies of another model, config, arm or storage",
    threshold="each honest one verifies, both ways; each forged one is rejected at the index of its first token that "
    "does not follow, each broken one without an index, each other one as incomparable, by the name of its field",
    disproof="a changed file that verifies; an honest one that does not, on another engine",
    void="no prompt, a prompt shorter than its rows, a change of parameters that changes no token",
    numbers={
        "rows": 6,
        "tokens": 8,
        "forged": 5,  # the token that is forged
        "sampling": {"temperature": 1.5, "top_k": 60, "top_p": 0.95, "seed": 12},
        "other_sampling": {"temperature": 1.0, "top_k": 3, "top_p": 0.25, "seed": 13},  # one at a time
    },
)
Lines = list[dict[str, Any]]  # of a file, without the fields of the chain; the last holds the reason
Forgery = tuple[Lines, int | None]  # and the index at which it must be rejected


def run(subject: Subject) -> Outcome:
    n = HEADER.numbers
    honest = forged = broken_chains = others = 0
    for model, ids in prompts(subject):
        prompt = ids[: n["rows"]]
        if len(prompt) < n["rows"]:
            raise VoidError(f"the prompt of {model.name} has {len(prompt)} ids, not {n['rows']}")
        maker, verifiers = subject.engine(model), [subject.engine(model), subject.reference(model)]
        sampled = produce(maker, prompt, n["tokens"], Sampling(**n["sampling"]))
        made = {"sampled": sampled.chain.lines}
        made["greedy, of the reference"] = produce(subject.reference(model), prompt, n["tokens"]).chain.lines
        if model.name == FAULT_MODEL:
            stopped = produce(maker, prompt, n["tokens"], Sampling(**n["sampling"]), [sampled.ids[-2]])
            made["stopped"] = stopped.chain.lines
        for name, lines in made.items():
            for verifier in verifiers:
                accepted(subject, verifier, lines, f"{model.name}, {name}, verified on {verifier.name}")
                honest += 1
        if model.name != FAULT_MODEL:  # what a verifier rejects does not depend on the model
            continue
        verifier = verifiers[0]
        logits, _ = whole(subject.reference(model), [*prompt, *sampled.ids[:-1]])
        for name, (records, index) in forgeries(made, logits[len(prompt) - 1 :], model.config.vocab).items():
            rejected(subject, verifier, sealed(records), name, index)
            forged += 1
        for name, lines in broken_lines(made["sampled"], made["stopped"]).items():
            rejected(subject, verifier, lines, name, None)
            broken_chains += 1
        for field, value in OTHERS.items():
            incomparable(subject, verifier, sealed(changed(opened(made["sampled"]), 0, field, value)), field)
            others += 1
        for field, value in OTHER_CONFIG.items():
            config = {**opened(made["sampled"])[0]["config"], field: value}
            incomparable(subject, verifier, sealed(changed(opened(made["sampled"]), 0, "config", config)), field)
            others += 1
    return Outcome("PASS", "", {"honest": honest, "forged": forged, "broken": broken_chains, "others": others})


def accepted(subject: Subject, engine: AnyEngine, lines: Sequence[str], where: str) -> None:
    try:
        subject.verify_transcript(engine, lines)
    except (TranscriptError, IncomparableError) as error:
        raise FailedError(f"{where}: rejected: {error}") from error


def rejected(subject: Subject, engine: AnyEngine, lines: Sequence[str], name: str, index: int | None) -> None:
    try:
        subject.verify_transcript(engine, lines)
    except TranscriptError as error:
        if error.index != index:
            raise FailedError(f"{name}: rejected at {error.index}, expected at {index}: {error}") from error
        return
    raise FailedError(f"{name}: accepted")


def incomparable(subject: Subject, engine: AnyEngine, lines: Sequence[str], field: str) -> None:
    try:
        subject.verify_transcript(engine, lines)
    except IncomparableError as error:
        if error.field != field:
            raise FailedError(f"another {field}: incomparable by its {error.field}") from error
        return
    except TranscriptError as error:
        raise FailedError(f"another {field}: rejected, not incomparable: {error}") from error
    raise FailedError(f"another {field}: accepted")


OTHERS = {"contract": 2, "model": "0" * 64, "tokenizer": "0" * 64, "arm": "bf16", "kv": "int8"}
OTHER_CONFIG = {"eps": 0.015625, "rope": None, "heads": 1}


def forgeries(made: dict[str, list[str]], logits: F32, vocab: int) -> dict[str, Forgery]:
    """One field changed, or a token more or less. logits: the rows that the sampled tokens were chosen from"""
    n, sampled, stopped = HEADER.numbers, opened(made["sampled"]), opened(made["stopped"])
    k, last, stop = n["forged"], n["tokens"] - 1, len(stopped) - 2
    out: dict[str, Forgery] = {
        "an id": (changed(sampled, k + 1, "id", (sampled[k + 1]["id"] + 1) % vocab), k),
        "the last id": (changed(sampled, -2, "id", (sampled[-2]["id"] + 1) % vocab), last),
        "an id beyond the vocabulary": (changed(sampled, k + 1, "id", vocab), k),
        "a digest": (changed(sampled, k + 1, "logits", sampled[k]["logits"]), k),
        "the last digest": (changed(sampled, -2, "logits", sampled[k]["logits"]), last),
        "the prompt": (changed(sampled, 0, "prompt", [*sampled[0]["prompt"][:-1], 0]), 0),
        "max_tokens, one more": (changed(sampled, 0, "max_tokens", n["tokens"] + 1), n["tokens"]),
        "max_tokens, one less": (changed(sampled, 0, "max_tokens", last), last),
        "the last token gone": ([*sampled[:-2], sampled[-1]], last),
        "a token more": ([*sampled[:-1], sampled[-2], sampled[-1]], n["tokens"]),
        "two tokens changed about": ([*sampled[: k + 1], sampled[k + 2], sampled[k + 1], *sampled[k + 3 :]], k),
        "no stop id": (changed(stopped, 0, "stop", []), stop),
        "a token after the stop id": ([*stopped[:-1], stopped[-2], stopped[-1]], stop),
        "stop for length": (changed(sampled, -1, "reason", "stop"), n["tokens"]),
        "length for stop": (changed(stopped, -1, "reason", "length"), stop),
    }
    for name, value in n["other_sampling"].items():
        other = {**n["sampling"], name: value}
        out[f"the {name}"] = changed(sampled, 0, "sampling", other), first_other(sampled, logits, Sampling(**other))
    return out


def first_other(sampled: Lines, logits: F32, how: Sampling) -> int:
    """The first token that these parameters draw otherwise. Raises VoidError where there is none."""
    start = len(sampled[0]["prompt"]) - 1
    for i, (row, token) in enumerate(zip(logits, sampled[1:-1], strict=True)):
        if sample(row, how, start + i) != token["id"]:
            return i
    raise VoidError(f"{how} draws the same tokens")


def broken_lines(sampled: Sequence[str], stopped: Sequence[str]) -> dict[str, list[str]]:
    """Files that were changed by somebody who left the chain as it was."""
    edit = stopped[0].replace('"max_tokens":', '"max_tokens":1')  # a change that only the chain can see
    return {
        "max_tokens edited in the text": [edit, *stopped[1:]],
        "cut": list(sampled[:-1]),
        "a line removed": [*sampled[:2], *sampled[3:]],
        "two lines changed about": [*sampled[:2], sampled[3], sampled[2], *sampled[4:]],
        "a line twice": [*sampled[:3], sampled[2], *sampled[3:]],
        "a line after the end": [*sampled, sampled[-1]],
        "no header": list(sampled[1:]),
        "nothing": [],
    }


def opened(lines: Sequence[str]) -> Lines:
    """The lines as objects without the fields of the chain."""
    return [{k: v for k, v in json.loads(line).items() if k not in ("prev", "hash", "end")} for line in lines]


def sealed(records: Lines) -> list[str]:
    """The same with a chain that holds."""
    chain = Chain()
    for record in records[:-1]:
        chain.append(record)
    chain.close(records[-1]["reason"])
    return chain.lines


def changed(records: Lines, line: int, field: str, value: object) -> Lines:
    """With another value in one field of one line."""
    out = [dict(record) for record in records]
    out[line][field] = value
    return out


GATE = Gate(
    HEADER,
    run,
    {
        "digests are not compared": (broken.lax(digests=0), "a digest: accepted"),
        "one digest is compared": (broken.lax(digests=1), "a digest: accepted"),
        "tokens are not drawn again": (broken.lax(draws=False), "an id: rejected at 6, expected at 5"),
        "the chain is not checked": (broken.lax(chain=False), "max_tokens edited in the text: accepted"),
        "the position is the next one": (broken.lax(shift=1), "micro, sampled, verified on"),
        "rows are one too late": (broken.lax(late=1), "micro, sampled, verified on"),
        "parameters are ignored": (broken.lax(greedy=True), "micro, sampled, verified on"),
        "the last line is ignored": (broken.lax(end=False), "accepted"),
        "the last token is ignored": (broken.lax(skipped=1), "the last id: accepted"),
        "the header is no token but is counted": (broken.lax(first=1), "rejected at 6, expected at 5"),
        "another model is as good": (broken.lax(identity=False), "another contract: accepted"),
        "another config is as good": (broken.lax(config=False), "another eps: accepted"),
        "everything is rejected": (broken.rejects_all, "micro, sampled, verified on"),
        "several rows take another path": (
            engines.flips_rows(lambda rows: len(rows.ids) > 1 and rows.spans[0].state.length > 0),
            "micro, sampled, verified on",
        ),
    },
)
