"""The chat template of a model file, if it has one, and the text of the tokens that a template may name.

Only the default template is read; a file may hold others, for tools, beside it.
"""

from pathlib import Path
from typing import Any

from gnomon.reference.errors import ModelError
from gnomon.reference.model import ChatTemplate
from gnomon.reference.strict_json import parse_object, read_bytes, show

CONFIG, OWN_FILE = "tokenizer_config.json", "chat_template.jinja"
# name in a template -> where a GGUF file keeps its id, under tokenizer.ggml.
SPECIAL = {
    "bos_token": "bos_token_id",
    "eos_token": "eos_token_id",
    "unk_token": "unknown_token_id",
    "pad_token": "padding_token_id",
}


def chat_of_gguf(metadata: dict[str, Any]) -> ChatTemplate | None:
    """From tokenizer.chat_template. Raises ModelError where it is no text."""
    source = metadata.get("tokenizer.chat_template")
    if source is None:
        return None
    if not isinstance(source, str):
        raise ModelError(f"Expected tokenizer.chat_template in the GGUF metadata to be text but got {show(source)}")
    tokens = metadata.get("tokenizer.ggml.tokens", [])
    if not isinstance(tokens, list):
        raise ModelError(f"Expected tokenizer.ggml.tokens in the GGUF metadata to be a list but got {show(tokens)}")
    ids = {name: metadata.get(f"tokenizer.ggml.{key}") for name, key in SPECIAL.items()}
    return ChatTemplate(source, {name: tokens[i] for name, i in ids.items() if type(i) is int and 0 <= i < len(tokens)})


def chat_of_directory(path: Path) -> ChatTemplate | None:
    """From chat_template.jinja, else from tokenizer_config.json. Raises ModelError where a file is broken."""
    config = parse_object(read_bytes(path / CONFIG), CONFIG) if (path / CONFIG).exists() else {}
    source = own_file(path / OWN_FILE) if (path / OWN_FILE).exists() else default_of(config.get("chat_template"))
    if source is None:
        return None
    special = {name: text for name in SPECIAL if (text := content(config.get(name))) is not None}
    return ChatTemplate(source, special)


def own_file(path: Path) -> str:
    """The text of a template file, its line ends as on Unix."""
    try:
        return read_bytes(path).decode("utf-8").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise ModelError(f"Expected {path.name} to be UTF-8 but byte {error.start} is not") from error


def default_of(value: Any) -> str | None:
    """The template, or of a list of named ones the one called "default"."""
    match value:
        case None | str():
            return value
        case [*entries]:
            named = [e.get("template") for e in entries if isinstance(e, dict) and e.get("name") == "default"]
            if len(named) == 1 and isinstance(named[0], str):
                return named[0]
    raise ModelError(f'Expected chat_template in {CONFIG} to be text, or to name one "default", but got {show(value)}')


def content(value: Any) -> str | None:
    """The text of a token, which stands there as text or as an object."""
    text = value.get("content") if isinstance(value, dict) else value
    return text if isinstance(text, str) else None
