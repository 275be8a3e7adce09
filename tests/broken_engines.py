"""A small dense model, and engines on it that are broken in a known way and place."""

import numpy as np

from gnomon.reference.config import Config, Rope
from gnomon.reference.engine import Engine
from gnomon.reference.families import family
from gnomon.reference.model import Model
from gnomon.reference.numpy_ops import NumpyOps
from gnomon.reference.ops.tiling import pack_matrix
from gnomon.reference.weights import Weight
from gnomon.reference.widen import widen

CONFIG = Config(
    family="llama",
    vocab=97,
    width=40,
    layers=2,
    heads=4,
    kv_heads=2,
    head_dim=10,
    ffn=72,
    eps=1e-5,
    rope=Rope(theta=10000.0, dim=10),
    max_positions=4096,
    windows=(5, None),
)
IDS = [5, 80, 13, 2, 61, 7, 40, 33]

_ATTENTION = ["q", "k", "v", "q_rot", "k_rot", "scores", "exp", "denom", "z", "out"]
_BLOCK = [
    "ln1",
    *(f"attn.{name}" for name in _ATTENTION[:5]),
    *("kv.k", "kv.v"),
    *(f"attn.{name}" for name in _ATTENTION[5:]),
    *("resid_mid", "ln2", "mlp.gate", "mlp.up", "mlp.act", "mlp.out", "resid_post"),
]
TAPS = ["embed", *(f"blocks.{i}.{name}" for i in (0, 1) for name in _BLOCK), "ln_final", "logits"]


def small():
    """f32 weights from a seed: norms around 1, all others around 0."""
    rng = np.random.Generator(np.random.PCG64(7))
    weights = {}
    for name, spec in family("llama").specs(CONFIG).items():
        unit = rng.random(spec.shape) * 2.0 - 1.0
        values = 1.0 + unit / 4 if spec.role == "vector" else unit * (3.0 / spec.shape[1]) ** 0.5
        data = np.ascontiguousarray(values.astype("<f4")).view(np.uint8).reshape(spec.shape[0], -1)
        weights[name] = Weight(name, "F32", spec.shape, data, spec.role)
    return Model("small", CONFIG, weights)


MODEL = small()


def reference():
    return Engine("numpy", MODEL, NumpyOps())


class ShownOtherwise(Engine):
    """Computes as the reference does; `show(name, value, pos)` lists what a tap is shown, as such triples."""

    def __init__(self, show):
        super().__init__("shown", MODEL, NumpyOps())
        self.show = show
        self.calls = 0

    def step(self, rows, want="last", tap=None):
        engine = self

        class Between:
            def wants(self, name):
                return tap.wants(name)

            def __call__(self, name, value, pos, op, inputs):
                engine.calls += 1
                for shown in engine.show(name, value, pos):
                    tap(*shown, op, inputs)

        return super().step(rows, want, Between() if tap else None)


def shows(tap, change):
    """Shows `change(value)` in place of the tensors of one tap."""
    return ShownOtherwise(lambda name, value, pos: [(name, change(value) if name == tap else value, pos)])


class ReversedSum(NumpyOps):
    """One matrix product adds its terms from the last to the first; decode_only: in steps of one row."""

    def __init__(self, where, decode_only=False):
        super().__init__()
        self.where, self.decode_only = where, decode_only

    def pack(self, weight):
        if weight.name == f"{self.where}.weight":
            self.backwards = pack_matrix(widen(weight)[:, ::-1])
        return super().pack(weight)

    def linear(self, at, x, w, b=None):
        if at == self.where and (len(x) == 1 or not self.decode_only):
            return super().linear(at, np.ascontiguousarray(x[:, ::-1]), self.backwards, b)
        return super().linear(at, x, w, b)


class Constant(NumpyOps):
    """Embeds every token as the same number, from some position on."""

    def __init__(self, value, start=0):
        super().__init__()
        self.value, self.start = np.float32(value), start

    def embed(self, at, rows, w):
        late = rows.pos[:, None] >= self.start
        return np.where(late, self.value, super().embed(at, rows, w))


class FlipsExport(Engine):
    """One bit of one exported array is wrong, at the last position of the prompt."""

    def export(self, state):
        arrays = super().export(state)
        arrays["blocks.1.kv.v"].view(np.uint32)[len(IDS) - 1, 1, 4] ^= 2
        return arrays


class ForgetsExport(Engine):
    """One array of the state is not exported."""

    def export(self, state):
        return {name: a for name, a in super().export(state).items() if name != "blocks.0.kv.k"}


class OtherChoice(Engine):
    """Prefers token 3 after every step of one row, in the logits it gives back; `fed`: the ids of every watched step"""

    def __init__(self):
        super().__init__("other", MODEL, NumpyOps())
        self.fed = []

    def step(self, rows, want="last", tap=None):
        logits = super().step(rows, want, tap)
        self.fed += [rows.ids.tolist()] if tap else []
        if rows.spans[-1].stop - rows.spans[-1].start == 1:
            logits[-1, 3] = 1e6
        return logits
