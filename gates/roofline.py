"""How near decoding comes to the memory under it: the bytes of the weights per second, over what streaming reaches.

Run by name only: it needs a machine with nothing else to do.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from gnomon.gates.faults import rooflines as broken
from gnomon.gates.gate import AnyEngine, Gate, Header, Outcome, Subject, VoidError
from gnomon.models.micro import CONFIG
from gnomon.reference.config import Rope
from gnomon.reference.families import family
from gnomon.reference.model import Model
from gnomon.reference.ops.bf16 import to_bf16
from gnomon.reference.protocol import Rows
from gnomon.reference.weights import Weight

HEADER = Header(
    name="roofline",
    question="Does decoding read its weights no faster than memory streams, and at what share of that speed?",
    instrument="a bf16 decoder made in memory from a seed, its matrices four last-level caches or more; steps of one "
    "token and passes of a streaming kernel in turn, the best of several each; bytes are those of the matrices, once",
    threshold="a share of at most 1; the engine holds as many bytes as the file would",
    disproof="weights that stay in a cache; a streaming kernel that is slower than memory",
    void="the median of either takes more than a tenth longer than its best: the machine had something else to do",
    numbers={
        "caches": 4,
        "rounds": 9,
        "steps": 4,
        "spread": 0.1,
        "most": 1.0,
        "widths": [512, 2048],
        "wide_from": 64 << 20,
        "head_dim": 64,
        "kv_heads": 8,
        "seed": 20261130,
    },
)


def decoder(least: int) -> Model:
    """A decoder of so many bytes of matrices or more: uniform weights in bf16, layers as many as that takes."""
    n = HEADER.numbers
    width = n["widths"][least >= n["wide_from"]]
    config = replace(
        CONFIG, width=width, heads=width // n["head_dim"], kv_heads=n["kv_heads"], head_dim=n["head_dim"],
        ffn=4 * width, vocab=1024, rope=Rope(theta=10000.0, dim=n["head_dim"]), layers=1, windows=(None,),
        kinds=("attention",), delta=None,
    )  # fmt: skip
    matrices = sum(
        s.shape[0] * s.shape[1] * 2 for s in family(config.family).specs(config).values() if s.role == "linear"
    )
    layers = max(1, -(-least // matrices))
    config = replace(config, layers=layers, windows=(None,) * layers, kinds=("attention",) * layers)
    rng, weights = np.random.Generator(np.random.PCG64(n["seed"])), {}
    for name, spec in family(config.family).specs(config).items():
        unit = rng.random(spec.shape, np.float32) - np.float32(0.5)
        values = 1.0 + unit if spec.role == "vector" else unit * np.float32((12.0 / spec.shape[-1]) ** 0.5)
        data = to_bf16(values.astype(np.float32)).view(np.uint8).reshape(spec.shape[0], -1)
        weights[name] = Weight(name, "BF16", spec.shape, data, spec.role)
    return Model("random-bf16", config, weights)


def run(subject: Subject) -> Outcome:
    n, meter = HEADER.numbers, subject.meter
    least = n["caches"] * meter.last_level_cache(subject.engine(decoder(1)))
    model = decoder(least)
    engine = subject.engine(model)
    stored = sum(w.data.nbytes for w in model.weights.values() if w.role == "linear")
    held, stream = meter.weight_bytes(engine), meter.streaming(engine, least)
    if held != stored:
        return Outcome("FAIL", f"{held} bytes per token counted but the matrices hold {stored}", {"bytes": held})
    decode = decoding(engine)
    decode()
    times: dict[str, list[float]] = {"decode": [], "stream": []}
    for _ in range(n["rounds"]):
        for name, work in (("stream", stream.work), ("decode", decode)):
            began = meter.clock()
            work()
            times[name].append(meter.clock() - began)
    for name, each in times.items():
        if min(each) <= 0:
            raise VoidError(f"the clock did not move during {name}")
        spread = float(np.median(each)) / min(each) - 1
        if spread > n["spread"]:
            raise VoidError(
                f"spread of {name}: the median takes {spread:.0%} longer than the best, expected 10% at most"
            )
    reading = n["steps"] * held / min(times["decode"])
    memory = stream.nbytes / min(times["stream"])
    share = reading / memory
    figures = {"share": round(share, 4), "read_gb_s": round(reading / 1e9, 1), "stream_gb_s": round(memory / 1e9, 1)}
    if share > n["most"]:
        return Outcome("FAIL", f"over 100%: decoding reads {share:.0%} of what memory streams", figures)
    return Outcome("PASS", "", {**figures, "megabytes": held >> 20, "caches": round(held * n["caches"] / least, 1)})


def decoding(engine: AnyEngine) -> Callable[[], None]:
    """Steps of one token, each after the other"""
    state, steps = engine.new(), HEADER.numbers["steps"]

    def work() -> None:
        for token in range(steps):
            engine.step(Rows.of([(state, [token])]))

    return work


GATE = Gate(
    HEADER,
    run,
    {
        "a clock that stands still while the engine works": (broken.clock_lies, "over 100%"),
        "bytes counted double": (broken.bytes_doubled, "bytes per token counted but the matrices hold"),
    },
)
