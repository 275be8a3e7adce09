"""The tokenizer of a GGUF file, from the values of tokenizer.ggml.*"""

from collections.abc import Sequence

from gnomon.reference.bpe import Bpe
from gnomon.reference.errors import ModelError, UnknownTokenizerError
from gnomon.reference.pretokenize import NAMED, Added
from gnomon.reference.tokenizer_json import Frame, pair

# Values of tokenizer.ggml.token_type. There is a sixth, byte, in models of other kinds.
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED = 1, 2, 3, 4, 5


def bpe(
    tokens: Sequence[str],
    merges: Sequence[str],
    token_types: Sequence[int],
    pre: str,
    model: str,
    frame: Frame,
) -> Bpe:
    """tokens: [vocabulary] by id; token_types: [vocabulary]; merges: "a b", by rank. Raises ModelError."""
    if model != "gpt2":
        raise UnknownTokenizerError(f"Expected tokenizer.ggml.model to be gpt2 or llama but got {model!r:.80}")
    if pre not in NAMED:
        raise UnknownTokenizerError(f"Expected a known tokenizer.ggml.pre but got {pre!r:.80}")
    if len(tokens) != len(token_types):
        raise ModelError(f"Expected a type per token but got {len(tokens)} tokens, {len(token_types)} types")
    ids: dict[str, int] = {}
    added: list[Added] = []
    for i, (token, kind) in enumerate(zip(tokens, token_types, strict=True)):
        if not isinstance(token, str):
            raise ModelError(f"Expected tokens to be text but token {i} is {token!r:.80}")
        if ids.setdefault(token, i) != i:
            raise ModelError(f"Expected tokens to differ but {ids[token]} and {i} are both {token!r:.80}")
        if kind not in (NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED):
            raise ModelError(f"Expected token types from 1 to 5 but {token!r:.80} has {kind!r:.80}")
        if kind in (UNKNOWN, CONTROL, USER_DEFINED):
            added.append(Added(i, token, special=kind != USER_DEFINED))
    unused = {i for i, kind in enumerate(token_types) if kind == UNUSED}
    vocab = {token: i for token, i in ids.items() if i not in unused}
    return Bpe(vocab, [pair(merge) for merge in merges], added, NAMED[pre], *frame, unused=unused)
