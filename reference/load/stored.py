"""From the tensors of a file to the weights of a model: all that the family asks for, and no other."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import prod

import gguf
import numpy as np
from numpy.typing import NDArray

from gnomon.reference.config import Config
from gnomon.reference.errors import ModelError
from gnomon.reference.families import family
from gnomon.reference.load.strict_json import show
from gnomon.reference.weights import Role, Weight

DTYPES = ("F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q4_K", "Q5_K", "Q6_K")
# dtype -> (values per block, bytes per block); blocks run along the last axis
BLOCKS: dict[str, tuple[int, int]] = {name: gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[name]] for name in DTYPES}


@dataclass(frozen=True)
class Stored:
    """A tensor as its file has it: shape, rows first; its bytes, uint8 [bytes], a view of the file."""

    dtype: str
    shape: tuple[int, ...]
    data: NDArray[np.uint8]


def assemble(config: Config, tensors: Mapping[str, Stored], file_name: Callable[[str], str]) -> dict[str, Weight]:
    """The weights by canonical name, their bytes as [rows, bytes per row]; nothing is copied

    file_name: canonical name -> the name in the file
    Raises ModelError for a tensor that is missing, superfluous or of another shape, and for a tied head that
    the file stores again with other bytes.
    """
    left = dict(tensors)
    weights: dict[str, Weight] = {}
    for name, spec in family(config.family).specs(config).items():
        theirs = file_name(name)
        tensor = left.pop(theirs, None)
        if config.tied and name == "head.weight":
            weights[name] = tied_head(weights["embed.weight"], tensor, theirs, spec.role)
            continue
        if tensor is None:
            raise ModelError(f"Expected a tensor {theirs} but the model has none")
        if tensor.shape != spec.shape:
            raise ModelError(f"Expected {theirs} to have shape {list(spec.shape)} but got {show(list(tensor.shape))}")
        weights[name] = Weight(
            name, tensor.dtype, spec.shape, tensor.data.reshape(prod(spec.shape[:-1]), -1), spec.role
        )
    if left:
        raise ModelError(f"Expected no tensor beyond those of a {config.family} model but got {show(min(left))}")
    return weights


def tied_head(embed: Weight, stored: Stored | None, theirs: str, role: Role) -> Weight:
    """The embedding read again, as the head. Where the file has both, their bytes must be the same."""
    if stored is not None and (
        stored.dtype != embed.dtype
        or stored.shape != embed.shape
        or not np.array_equal(stored.data, embed.data.reshape(-1))
    ):
        raise ModelError(f"Expected the tied head {theirs} to hold the bytes of the embedding but it holds others")
    return replace(embed, name="head.weight", role=role)
