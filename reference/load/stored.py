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
from gnomon.reference.strict_json import show
from gnomon.reference.weights import Role, Weight

DTYPES = (
    *("F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K"),
    *("IQ4_NL", "IQ4_XS", "MXFP4"),
)
# dtype -> (values per block, bytes per block); blocks run along the last axis
BLOCKS: dict[str, tuple[int, int]] = {name: gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[name]] for name in DTYPES}


Bytes = NDArray[np.uint8]


@dataclass(frozen=True)
class Stored:
    """A tensor as its file has it: shape, rows first; its bytes, uint8 [bytes], a view of the file."""

    dtype: str
    shape: tuple[int, ...]
    data: Bytes


@dataclass(frozen=True)
class Source:
    """Where a file has a weight: in a tensor of that name and shape, which may hold other weights too

    cut: takes the weight out of the tensor's bytes, uint8 [*shape[:-1], bytes per row] -> [rows, bytes per row]; None
         where the tensor is the weight
    """

    tensor: str
    shape: tuple[int, ...]
    cut: Callable[[Bytes], Bytes] | None = None


def assemble(
    config: Config, tensors: Mapping[str, Stored], source: Callable[[str, tuple[int, ...]], Source]
) -> dict[str, Weight]:
    """The weights by canonical name, their bytes as [rows, bytes per row]; copied only where a cut moves them

    source: canonical name and shape of a weight -> where the file has it
    Raises ModelError for a tensor that is missing, superfluous or of another shape or type, and for a tied head that
    the file stores again with other bytes.
    """
    left = set(tensors)
    weights: dict[str, Weight] = {}
    for name, spec in family(config.family).specs(config).items():
        there = source(name, spec.shape)
        left.discard(there.tensor)
        tensor = tensors.get(there.tensor)
        if config.tied and name == "head.weight":
            weights[name] = tied_head(weights["embed.weight"], tensor, there.tensor, spec.role)
            continue
        if tensor is None:
            raise ModelError(f"Expected a tensor {there.tensor} but the model has none")
        if tensor.shape != there.shape:
            raise ModelError(
                f"Expected {there.tensor} to have shape {list(there.shape)} but got {show(list(tensor.shape))}"
            )
        if tensor.dtype not in BLOCKS:
            raise ModelError(f"Expected {there.tensor} to have a type among F32, F16, BF16 but got {tensor.dtype}")
        rows = tensor.data.reshape(*there.shape[:-1], -1)
        rows = rows if there.cut is None else there.cut(rows)
        weights[name] = Weight(name, tensor.dtype, spec.shape, rows.reshape(prod(spec.shape[:-1]), -1), spec.role)
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
