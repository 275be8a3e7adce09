"""A state keeps its bytes on every way: out of an engine, into another, out again, and in what follows from it."""

from collections.abc import Iterator, Sequence

from gnomon.decode.state_file import StateFile, unpack
from gnomon.gates.faults import restoring as broken
from gnomon.gates.faults import sharing, states
from gnomon.gates.gate import AnyEngine, Gate, Header, Outcome, Subject
from gnomon.gates.moving import compare_files, out_of, taken
from gnomon.gates.tally import Tally, exported, prompts
from gnomon.reference.model import Model
from gnomon.reference.protocol import F32, Rows
from gnomon.reference.state import State

HEADER = Header(
    name="state-bytes",
    question="Is a moved state the unmoved one: its file, its file after import, and what follows from it?",
    instrument="state files of two conversations (one on trained models), written by the engine and by the reference, "
    "imported by the engine from both and by the reference from the engine, exported again; rows of logits that "
    "follow on both sides; the same with keys and values exchanged and signed again; arrays that were exported, and "
    "arrays that were loaded, before and after the engine runs other rows in that state, and with zeros written into "
    "them",
    threshold="every file is the same bytes as the one that was imported, the engine's as the reference's; every row "
    "that follows is alive and identical; a state that was exchanged comes back as it was sent; nothing that the "
    "engine does shows in an array outside of it, nothing that is written into one shows in the engine",
    disproof="one byte of a file, or one bit of a row that follows, for any conversation, arm or kv storage",
    void="no prompt, a prompt shorter than two conversations, a model that does not load",
    numbers={
        "rows": 14,
        "rows_of_trained": 4,
        "more": 2,
        "trained": ["tiny-dense", "tiny-hybrid"],  # both, where the prompts hold one of them
        "forms": [
            ["f32", "f32"],
            ["f32", "bf16"],
            ["f32", "int8"],
            ["int8", "f32"],
            ["int8", "bf16"],
            ["int8", "int8"],
        ],
        "forms_of_trained": [["f32", "f32"], ["int8", "bf16"]],  # all of them: bench/state_moves.py
    },
)


def run(subject: Subject) -> Outcome:
    tally, files = Tally(), 0
    for model, ids in asked(subject):
        trained = model.name in HEADER.numbers["trained"]
        rows = HEADER.numbers["rows_of_trained" if trained else "rows"]
        texts = [ids[start : start + rows] for start in ([0] if trained else [0, rows])]
        for forms in HEADER.numbers["forms_of_trained" if trained else "forms"]:
            where = f"{model.name} {forms[0]} kv {forms[1]}"
            apart(subject.engine(model, *forms), texts[0], tally, where)
            if not tally.unequal:
                files += moved(subject, model, forms, texts, tally, where)
            if tally.unequal:
                return tally.outcome(files=files)
    return tally.outcome(files=files)


def asked(subject: Subject) -> Iterator[tuple[Model, list[int]]]:
    """The models of the subject and, beside a trained one, the others that are trained."""
    trained = HEADER.numbers["trained"]
    for model, ids in prompts(subject):
        if model.name not in trained:
            yield model, ids
    for name in trained if subject.prompts.keys() & set(trained) else []:
        model = subject.load(name)
        given = next(ids for known, ids in subject.prompts.items() if known in trained)
        yield model, [i % model.config.vocab for i in given]


def moved(
    subject: Subject, model: Model, forms: Sequence[str], texts: Sequence[list[int]], tally: Tally, where: str
) -> int:
    """Two conversations on every way -> how many files were compared"""
    engine, reference, files = subject.engine(model, *forms), subject.reference(model, *forms), 0
    own = subject.engine(model, *forms)  # what it gives must not hang on one object
    for number, ids in enumerate(texts, 1):
        (file, expected), (same, rows) = begun(engine, ids), begun(reference, ids)
        at = f"{where}, conversation {number}"
        compare_files(tally, f"{at}, exported", file, same)
        ways = {"to itself": (file, own), "to the reference": (file, reference), "from the reference": (same, engine)}
        for way, (sent, target) in ways.items():
            state = taken(target, sent, f"{at}, {way}")
            compare_files(tally, f"{at}, {way}", out_of(target, state), sent)
            for row, (got, right) in enumerate(zip(follow(target, state, ids), rows, strict=True)):
                tally.compare(f"{at}, {way}, row {row} that follows", got, right, "logits")
        for row, (got, right) in enumerate(zip(expected, rows, strict=True)):
            tally.compare(f"{at}, unmoved, row {row} that follows", got, right, "logits")
        other = unpack([states.exchanged(file)])
        compare_files(tally, f"{at}, exchanged", out_of(own, taken(own, other, f"{at}, exchanged")), other)
        files += 5
    return files


def apart(engine: AnyEngine, ids: list[int], tally: Tally, where: str) -> None:
    """Arrays outside of an engine share no memory with a state in it, on the way out and on the way in."""

    def state() -> State:
        return engine.forward(ids, want="none")[1]

    first = state()
    given = exported(engine, first)
    before = {name: array.copy() for name, array in given.items()}
    expected = {
        "an export": follow(engine, state(), ids),
        "what was loaded": follow(engine, engine.load(given, ids), ids),
    }
    tally.compare_all(f"{where}, loaded, after the engine went on", given, before)
    follow(engine, first, ids)
    cut_back(engine, first, len(ids) // 2)
    follow(engine, first, ids[::-1])
    tally.compare_all(f"{where}, exported, after the engine went on", given, before)
    leaves, comes = state(), {name: array.copy() for name, array in before.items()}
    arrived = engine.load(comes, ids)
    for what, arrays, target in (("an export", exported(engine, leaves), leaves), ("what was loaded", comes, arrived)):
        for array in arrays.values():
            if array.flags.writeable:
                array[...] = 0
        for row, (got, right) in enumerate(zip(follow(engine, target, ids), expected[what], strict=True)):
            tally.compare(f"{where}, zeros written into {what}, row {row} that follows", got, right, "logits")


def cut_back(engine: AnyEngine, state: State, length: int) -> None:
    """The state forgets its later positions; where layers are recurrent it stays as it is."""
    if "delta" not in engine.model.config.kinds:
        engine.truncate(state, length)


def begun(engine: AnyEngine, ids: list[int]) -> tuple[StateFile, F32]:
    """The file of a conversation, and the rows that follow where it stays."""
    _, state = engine.forward(ids, want="none")
    return out_of(engine, state), follow(engine, state, ids)


def follow(engine: AnyEngine, state: State, ids: list[int]) -> F32:
    """Some rows more: the first ids once again."""
    return engine.step(Rows.of([(state, ids[: HEADER.numbers["more"]])]), "all")


GATE = Gate(
    HEADER,
    run,
    {
        "keys and values by head": (broken.exports(broken.by_head), "exported, blocks.0.kv.k: differs"),
        "rounded to bf16 on the way out": (broken.exports(broken.rounded), "exported, blocks.0.kv.k: differs"),
        "keys and values exchanged on the way in": (
            broken.loads(broken.exchanged),
            "to itself, blocks.0.kv.k: differs",
        ),
        "the scale of int8 dropped": (broken.loads(broken.without_scale), "f32 kv int8, conversation 1, to itself"),
        "the convolution of an earlier state": (
            broken.stale_conv,
            "conversation 2, to itself, blocks.2.rec.conv: differs",
        ),
        "the last position lost": (broken.loses_last_position, "to itself, blocks.0.kv.k: shape"),
        "the next position counted late": (broken.goes_on_late, "to itself, row 0 that follows"),
        "delta states turned, both ways": (broken.transposed_both_ways, "exported, blocks.2.rec.delta: differs"),
        "an export goes on with the engine": (
            sharing.live_export,
            "exported, after the engine went on, blocks.2.rec.conv: ",
        ),
        "what is written into an export reaches the engine": (
            sharing.writable_export,
            "zeros written into an export, row 0 that follows",
        ),
        "an engine goes on in the arrays that it loaded": (
            sharing.live_load,
            "loaded, after the engine went on, blocks.2.rec.conv: ",
        ),
        "what is written into loaded arrays reaches the engine": (
            sharing.writable_load,
            "zeros written into what was loaded, row 0 that follows",
        ),
        "states cached by their ids": (broken.cached_by_ids, "exchanged, blocks.0.kv.k"),
    },
)
