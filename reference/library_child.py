"""The `tokenizers` library. Run by confined.py."""

import hashlib
import json
from typing import Any

import tokenizers

LOADED: dict[str, Any] = {}


def answer(request: Any) -> Any:
    """[what, ...]; "load" comes first."""
    match request:
        case ["load", text]:
            library = LOADED["tokenizer"] = tokenizers.Tokenizer.from_str(text)
            # They belong to a training batch, and a file may claim any length.
            library.no_padding()
            library.no_truncation()
            special = [i for i, token in library.get_added_tokens_decoder().items() if token.special]
            # What decodes need not be what encodes: an added token is read back in its normal form.
            tokens = [(token, i, library.id_to_token(i)) for token, i in library.get_vocab().items()]
            return {"size": library.get_vocab_size(), "tokens": tokens, "special": special}
        case ["encode", text, add_special]:
            return LOADED["tokenizer"].encode(text, add_special_tokens=add_special).ids
        case ["decode", ids, skip_special]:
            return LOADED["tokenizer"].decode(ids, skip_special_tokens=skip_special)
        case ["digest"]:
            described = json.loads(LOADED["tokenizer"].to_str())
            return hashlib.sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()
    raise ValueError(f"Expected a known request but got {request[0]!r:.80}")
