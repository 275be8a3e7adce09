"""Between ops there is no subnormal, no negative zero, nothing below 2^-50: see the contract, section 2."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from gnomon.gates.faults import engines as broken
from gnomon.gates.gate import Array, Gate, Header, Outcome, Subject, VoidError
from gnomon.gates.tally import prompts, whole
from gnomon.reference.model import Model
from gnomon.reference.weights import Weight

HEADER = Header(
    name="settled",
    question="Is every tensor between ops settled?",
    instrument="the bits of every tap, of the logits and of the state; in a run of each model, and in one of micro "
    "with the matrices of values and of the mlp scaled down until products fall below the floor",
    threshold="every value is +0.0 or at least 2^-50 in magnitude; the faint run holds zeros that settling made",
    disproof="an op that leaves smaller values only on inputs that these runs do not have",
    void="no prompt, an empty prompt, a model that does not load, a faint run without a zero",
    numbers={"rows": 14, "floor_bits": 0x26800000, "faint_power": -48, "faint": ["attn.v.weight", "mlp.up.weight"]},
)


class Watch:
    """A tap that counts values below the floor."""

    def __init__(self) -> None:
        self.tensors = self.values = self.zeros = 0
        self.first = ""

    def wants(self, name: str) -> bool:
        return True

    def __call__(self, name: str, value: Array, pos: NDArray[np.int64], op: str, inputs: tuple[str, ...]) -> None:
        self.look(name, value)

    def look(self, name: str, value: Array) -> None:
        if value.dtype != np.float32:
            return  # a stored form: settled before it was stored
        bits = np.ascontiguousarray(value).view(np.uint32)
        unsettled = (bits != 0) & ((bits & np.uint32(0x7FFFFFFF)) < HEADER.numbers["floor_bits"])
        self.tensors += 1
        self.values += bits.size
        if not name.endswith(("scores", "exp")):  # they are zero wherever a row does not look
            self.zeros += int(np.count_nonzero(bits == 0))
        if unsettled.any() and not self.first:
            word = int(bits[unsettled][0])
            self.first = f"{name}: {np.count_nonzero(unsettled)} of {bits.size} values below 2^-50, first 0x{word:08x}"


def run(subject: Subject) -> Outcome:
    tensors = values = zeros = 0
    for model, ids in prompts(subject):
        faint = [faint_copy(model)] if model.name == "micro" else []
        for one in [model, *faint]:
            watch, engine = Watch(), subject.engine(one)
            logits, state = whole(engine, ids[: HEADER.numbers["rows"]], watch)
            watch.look("result", logits)
            for name, array in state.items():
                watch.look(f"state {name}", array)
            if watch.first:
                return Outcome("FAIL", f"{one.name}, {watch.first}")
            if one is not model and not watch.zeros:
                raise VoidError("the faint run holds no zero that settling made")
            tensors, values, zeros = tensors + watch.tensors, values + watch.values, zeros + watch.zeros
    return Outcome("PASS", "", {"tensors": tensors, "values": values, "zeros": zeros})


def faint_copy(model: Model) -> Model:
    """The model with some matrices times a power of two, which no bit of a mantissa feels."""

    def scaled(weight: Weight) -> Weight:
        factor = np.float32(2.0 ** HEADER.numbers["faint_power"])
        data = (weight.data.view("<f4") * factor).view(np.uint8).reshape(weight.data.shape)
        return replace(weight, data=data)

    names = tuple(HEADER.numbers["faint"])
    weights = {name: scaled(w) if name.endswith(names) else w for name, w in model.weights.items()}
    return Model(f"faint {model.name}", model.config, weights)


GATE = Gate(
    HEADER,
    run,
    {
        "a product that is not settled": (broken.unsettled_product("blocks.0.attn.v"), "attn.v: 105 of 280"),
        "a sum with a negative zero": (broken.plants("add", 0x80000000), "first 0x80000000"),
        "a subnormal": (broken.plants("swiglu", 0x00000001), "first 0x00000001"),
        "a value just below the floor": (broken.plants("rms_norm", 0x267FFFFF), "first 0x267fffff"),
    },
)
