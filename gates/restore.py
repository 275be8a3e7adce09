"""An import hangs on nothing that the engine did before, a refused one leaves no trace, and checkpoints count truly."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace

from gnomon.decode.state_file import (
    StateCorruptError,
    StateFile,
    StateFileError,
    StateIdentityError,
    receive,
    signed,
)
from gnomon.gates.faults import restoring as broken
from gnomon.gates.faults import states
from gnomon.gates.gate import AnyEngine, FailedError, Gate, Header, Outcome, Subject, VoidError
from gnomon.gates.moving import compare_files, out_of, taken, whole
from gnomon.gates.tally import Tally, prompts
from gnomon.reference.config import Config
from gnomon.reference.errors import GnomonError
from gnomon.reference.identity import arithmetic
from gnomon.reference.model import Model
from gnomon.reference.protocol import F32, Rows

HEADER = Header(
    name="restore",
    question="Does an engine in use restore a state as a new one does, refuse what is not its own, and count truly?",
    instrument="an engine that holds another conversation: imports into it, rows of logits that follow, the state that "
    "it held and what follows from that; state files of another model, of its weights under another config (eps, rope "
    "theta, window), of another arm, kv storage, tokenizer and contract, with a flipped bit, cut short, with another "
    "position; prefix checkpoints and their counters of rows",
    threshold="every row alive and identical, every file the same bytes; each wrong file refused for its own reason, "
    "by field, with both values; rows restored and computed as many as the longest known prefix says; budget kept",
    disproof="a wrong file of another kind that is taken, a conversation whose rows differ after a hit",
    void="no prompt, a prompt shorter than two conversations, a model that does not load",
    numbers={"rows": 9, "more": 3, "budget_states": 3},
)
OTHER_DIGEST = "0123456789abcdef" * 4


def run(subject: Subject) -> Outcome:
    tally, refused, counted = Tally(), 0, 0
    for model, ids in prompts(subject):
        rows = HEADER.numbers["rows"]
        if len(ids) < 2 * rows:
            raise VoidError(f"the prompt of {model.name} has {len(ids)} tokens, fewer than {2 * rows}")
        held, moved = ids[:rows], ids[rows : 2 * rows]
        refused += dirty(subject, model, held, moved, tally)
        counted += checkpointed(subject, model, held, moved, tally)
        if model.name == next(iter(subject.prompts)):  # what a budget does hangs on no model
            kept_in_budget(subject, model, held)
    return tally.outcome(refused=refused, counted=counted)


def dirty(subject: Subject, model: Model, held: list[int], ids: list[int], tally: Tally) -> int:
    """Imports, right and wrong ones, into an engine that holds a conversation -> how many were refused"""
    engine, refused = subject.engine(model), 0
    file, rows = known(subject, model, ids)
    before, rows_of_held = known(subject, model, held)
    taken(engine, before, f"{model.name}, into an engine in use")
    _, state = engine.forward(held, want="none")
    for what, data, right in wrong_files(subject, model, file):
        error = attempt(engine, data)
        said = right(error)
        if said:
            raise FailedError(f"{model.name}, {what}: {said}")
        refused += 1
    compare_files(tally, f"{model.name}, held through {refused} refused imports", out_of(engine, state), before)
    restored = taken(engine, file, f"{model.name}, into an engine in use")
    compare_files(tally, f"{model.name}, restored into an engine in use", out_of(engine, restored), file)
    compare_files(tally, f"{model.name}, held through an import", out_of(engine, state), before)
    if tally.unequal:
        return refused
    following = engine.step(Rows.of([(state, more(held)), (restored, more(ids))]), "all")
    for row, (got, expected) in enumerate(zip(following, [*rows_of_held, *rows], strict=True)):
        tally.compare(f"{model.name}, row {row} after an import", got, expected, "logits")
    return refused


def wrong_files(
    subject: Subject, model: Model, file: StateFile
) -> Iterator[tuple[str, bytes, Callable[[GnomonError | None], str]]]:
    """What is wrong, the file, and what finds fault with the error that it met; "" for none."""
    whose, ids = file.header.identity, list(file.header.ids)

    def by_field(field: str, theirs: str, ours: str = "") -> Callable[[GnomonError | None], str]:
        def said(error: GnomonError | None) -> str:
            if not isinstance(error, StateIdentityError):
                return f"not refused by its {field} but {error!r}"
            got = (error.field, error.ours, error.theirs)
            return "" if got == (field, ours or whose[field], theirs) else f"refused as {got}"

        return said

    def as_a(kind: type[GnomonError]) -> Callable[[GnomonError | None], str]:
        return lambda error: "" if type(error) is kind else f"not refused as a {kind.__name__} but {error!r}"

    for field, forms in (("arm", ("int8", "f32")), ("kv", ("f32", "bf16"))):
        other = subject.engine(model, *forms)
        sent = out_of(other, other.forward(ids, want="none")[1])
        yield (
            f"a state of another {field}",
            whole(sent),
            by_field(field, dict(zip(("arm", "kv"), forms, strict=True))[field]),
        )
    other = subject.engine(retouched(model))
    sent = out_of(other, other.forward(ids, want="none")[1])
    yield "a state of another model", whole(sent), by_field("model", other.model.digest)
    for name, value, ours, config in other_configs(model):
        other = subject.engine(replace(model, config=config))
        sent = out_of(other, other.forward(ids, want="none")[1])
        yield f"a state of another {name}", whole(sent), by_field(name, json.dumps(value), json.dumps(ours))
    for field, theirs in (("contract", "2"), ("tokenizer", OTHER_DIGEST)):
        sent = signed({**whose, field: theirs}, ids, file.arrays)
        yield f"a state of another {field}", whole(sent), by_field(field, theirs)
    yield "a flipped bit", states.flipped(file), as_a(StateCorruptError)
    yield "a file cut short", states.truncated(file), as_a(StateFileError)
    yield "another position", states.other_position(file), as_a(StateFileError)


def other_configs(model: Model) -> Iterator[tuple[str, float | None, float | None, Config]]:
    """Configs under which the same weights compute other bytes: the field, its value there and here, the config"""
    config, own = model.config, arithmetic(model)
    yield "eps", 0.015625, own["eps"], replace(config, eps=0.015625)
    if config.rope is not None:
        theta = 16.0 * config.rope.theta
        yield "rope.theta", theta, own["rope"]["theta"], replace(config, rope=replace(config.rope, theta=theta))
    window = None if config.windows[0] else 3
    yield "windows[0]", window, config.windows[0], replace(config, windows=(window, *config.windows[1:]))


def checkpointed(subject: Subject, model: Model, held: list[int], ids: list[int], tally: Tally) -> int:
    """Prompts through checkpoints -> how many rows were counted"""
    engine, rows, extra = subject.engine(model), len(ids), HEADER.numbers["more"]
    checkpoints = subject.checkpoints(engine, 1 << 28)
    asked = (  # a prompt, and how many of its rows are known by then
        ("a first prompt", held, 0),
        ("another prompt of the same length", ids, 0),
        ("the first prompt, further", [*held, *ids[:extra]], rows),
        ("the first prompt again", held, rows),
        ("another end of the first prompt", [*held[:-1], ids[0]], 0 if held[-1] != ids[0] else rows),
        ("the other prompt, further", [*ids, *more(ids)], rows),
    )
    restored = computed = 0
    for what, prompt, prefix in asked:
        logits, state = checkpoints.extend(prompt)
        cold, row = known_rows(subject, model, prompt)
        tally.compare(f"{model.name}, {what}", logits[-1], row, "logits")
        compare_files(tally, f"{model.name}, {what}", out_of(engine, state), cold)
        restored, computed = restored + prefix, computed + len(prompt) - prefix
        counts = checkpoints.counts
        if (counts.restored, counts.recomputed) != (restored, computed):
            raise FailedError(
                f"{model.name}, {what}: counted {counts.restored} rows restored and {counts.recomputed} computed, "
                f"expected {restored} and {computed}"
            )
        engine.forward(ids[:extra], state)  # a caller goes on with its own copy
    return restored + computed


def kept_in_budget(subject: Subject, model: Model, ids: list[int]) -> None:
    """The least recently used checkpoint goes first; the budget is never exceeded."""
    engine, room = subject.engine(model), HEADER.numbers["budget_states"]
    size = engine.nbytes(engine.fork(engine.forward(ids, want="none")[1]))  # a copy has no spare room
    checkpoints = subject.checkpoints(engine, room * (size + 4 * engine.model.config.vocab))
    turned = [[*ids[start:], *ids[:start]] for start in range(room + 2)]
    for prompt in turned:
        checkpoints.extend(prompt)
        if not 0 < checkpoints.nbytes <= checkpoints.budget or len(checkpoints) > room:
            raise FailedError(f"{len(checkpoints)} checkpoints take {checkpoints.nbytes} bytes where {room} fit")
    before = checkpoints.counts.restored
    checkpoints.extend(turned[-1])
    checkpoints.extend(turned[0])
    if checkpoints.counts.restored != before + len(ids):
        raise FailedError(
            f"{checkpoints.counts.restored - before} rows restored, expected {len(ids)}: of the last prompt"
        )


def known(subject: Subject, model: Model, ids: list[int]) -> tuple[StateFile, F32]:
    """The file of a conversation, and the rows that follow, by the reference."""
    reference = subject.reference(model)
    _, state = reference.forward(ids, want="none")
    return out_of(reference, state), reference.step(Rows.of([(state, more(ids))]), "all")


def known_rows(subject: Subject, model: Model, ids: list[int]) -> tuple[StateFile, F32]:
    """The file of a conversation and its last row of logits, by the reference."""
    reference = subject.reference(model)
    logits, state = reference.forward(ids)
    return out_of(reference, state), logits[-1]


def more(ids: list[int]) -> list[int]:
    return ids[: HEADER.numbers["more"]]


def attempt(engine: AnyEngine, data: bytes) -> GnomonError | None:
    """The error that an import ends in, if it does."""
    try:
        receive(engine, [data], len(data))
    except GnomonError as error:
        return error
    return None


def retouched(model: Model) -> Model:
    """The model with one bit of one weight changed."""
    name, weight = next(iter(model.weights.items()))
    data = weight.data.copy()
    data.reshape(-1)[0] ^= 1
    return Model(model.name, model.config, {**model.weights, name: replace(weight, data=data)}, model.tokenizer)


GATE = Gate(
    HEADER,
    run,
    {
        "a state is restored into the slot of another": (broken.restores_in_place, "held through"),
        "the convolution of an earlier state": (broken.stale_conv, "restored into an engine in use"),
        "the arm is not told": (broken.says("arm", "f32"), "a state of another arm: not refused by its arm"),
        "the kv storage is not told": (broken.says("kv", "f32"), "exports what is no state"),
        "every model is the same": (
            broken.says("weights", OTHER_DIGEST, shared=True),
            "a state of another model: not refused",
        ),
        "every theta is the same": (broken.says_theta, "a state of another rope.theta: not refused by its rope.theta"),
        "a copy of a state is the state": (broken.fork_shares, "the first prompt, further"),
        "checkpoints by position": (broken.checkpoints(broken.ByPosition), "another prompt of the same length"),
        "checkpoints by position and last id": (broken.checkpoints(broken.ByLastId), "further: counted"),
        "counters that flatter": (broken.checkpoints(broken.Flattering), "a first prompt: counted 9 rows restored"),
        "checkpoints without a budget": (broken.checkpoints(broken.Hoarding), "checkpoints take"),
    },
)
