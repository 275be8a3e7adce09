"""gnomon: a slow NumPy engine defines the bytes of a transformer; fast engines must cast exactly those bytes.

model = gnomon.load("tiny-dense")                       # or a Hugging Face directory, or a GGUF file
reference = gnomon.engine("numpy", model)
shadow = gnomon.engine("mlx", model)
report = gnomon.diff(reference, shadow, model.tokenizer.encode("def main("), steps=16)
print(report.text())
"""

from gnomon.compare.check_op import check_op
from gnomon.compare.diff import diff
from gnomon.compare.explain import explain
from gnomon.compare.same import assert_same_bytes
from gnomon.decode.generate import generate
from gnomon.engines import engine, engines
from gnomon.loading import load
from gnomon.reference.engine import Engine
from gnomon.reference.errors import GnomonError, ModelError, NonFiniteError, NotRunError, UsageError
from gnomon.reference.model import Model
from gnomon.reference.ops.sample import Sampling
from gnomon.reference.own_code import OwnCodeError
from gnomon.reference.protocol import Rows, Tap
from gnomon.reference.state import State

__all__ = [
    "Engine",
    "GnomonError",
    "Model",
    "ModelError",
    "NonFiniteError",
    "NotRunError",
    "OwnCodeError",
    "Rows",
    "Sampling",
    "State",
    "Tap",
    "UsageError",
    "assert_same_bytes",
    "check_op",
    "diff",
    "engine",
    "engines",
    "explain",
    "generate",
    "load",
]
