"""What a client may ask. One table of fields is what requests are checked by and what /openapi.json shows."""

from dataclasses import dataclass
from math import inf
from typing import Any

from gnomon.decode.chat import chat_ids
from gnomon.decode.text import Request
from gnomon.reference.errors import ModelError
from gnomon.reference.model import Model
from gnomon.reference.ops.sample import Sampling
from gnomon.reference.strict_json import parse_object, show
from gnomon.serve.refusal import refusal

Schema = dict[str, Any]


@dataclass(frozen=True)
class Asked:
    """request: its ids are the prompt, or what follows the conversation `state`; usage: a last piece that counts;
    top: how many likely tokens to show beside each that is drawn, None for no logprobs"""

    request: Request
    state: str | None
    chat: bool
    stream: bool
    usage: bool
    top: int | None


def a(said: str, kind: str, **more: Any) -> Schema:
    return {"type": kind, **more, "description": said}


def whole(least: int, most: int) -> Schema:
    return a(f"a whole number from {least} to {most}", "integer", minimum=least, maximum=most)


def one(least: float, most: float, said: str) -> Schema:
    return a(said, "number", minimum=least, maximum=most)


def either(said: str, *schemas: Schema) -> Schema:
    return {"anyOf": list(schemas), "description": said}


def an_object(said: str, required: list[str], **fields: Schema) -> Schema:
    """A field that need not be there may be null, which is the same."""
    loose = {n: f if n in required else either(f["description"], f, {"type": "null"}) for n, f in fields.items()}
    return a(said, "object", properties=loose, required=required, additionalProperties=False)


TRUTH = a("true or false", "boolean")
TEXT = a("a text that is not empty", "string", minLength=1)
STATE = a("the id of a conversation that is held", "string", minLength=1)
FORK = an_object("", ["state"], state=STATE, target=a("the URL of a --peer", "string"))
ZERO = one(0, 0, "0, since nothing else is supported")
COMMON = {
    "max_tokens": whole(1, 1 << 20),
    "temperature": either("0 or from 2^-20 to 2^20", one(0, 0, "greedy"), one(2**-20, 2**20, "drawn")),
    "top_p": one(0, 1, "a number above 0 and at most 1") | {"exclusiveMinimum": 0},
    "top_k": whole(0, 1 << 30),
    "seed": whole(0, 2**64 - 1),
    "stream": TRUTH,
    "stream_options": an_object('an object with "include_usage"', [], include_usage=TRUTH),
    "n": whole(1, 1),
    "presence_penalty": ZERO,
    "frequency_penalty": ZERO,
}
STOP = either("a text that is not empty, or up to 4", TEXT, a("texts", "array", items=TEXT, minItems=1, maxItems=4))
MESSAGE = an_object("", ["role", "content"], role=TEXT, content=a("text", "string"))
CHAT = {
    "messages": a('objects with "role" and "content", both text', "array", items=MESSAGE, minItems=1),
    "max_completion_tokens": whole(1, 1 << 20),
    "logprobs": TRUTH,
    "top_logprobs": whole(0, 20),
}


def answer_schema(model: Model, *, chat: bool) -> Schema:
    """Of a request for /v1/chat/completions or /v1/completions, with this model."""
    config, said = model.config, f"token ids below {model.config.vocab}, or text where there is a tokenizer"
    ids = a(said, "array", items=whole(0, config.vocab - 1), minItems=1, maxItems=config.max_positions)
    fields = {**COMMON, "model": {"enum": [model.name], "description": f"{model.name!r}, which runs here"}}
    if model.tokenizer is not None:
        fields["stop"] = STOP
    if chat:
        return an_object("", ["messages"], **fields, **CHAT)
    prompt = ids if model.tokenizer is None else either(said, TEXT, ids)
    return an_object("", ["prompt"], **fields, prompt=prompt, state=STATE)


def asked(model: Model, data: bytes, *, chat: bool) -> Asked:
    """The request in a body. Raises Refusal that names the field, UsageError where chat template or tokenizer fail."""
    given = read(data, answer_schema(model, chat=chat))
    sampling = Sampling(
        given.get("temperature", 1.0), int(given.get("top_k", 0)), given.get("top_p", 1.0), int(given.get("seed", 0))
    )
    tokens = int(given.get("max_completion_tokens", given.get("max_tokens", 512 if chat else 16)))
    stops = given.get("stop", ())
    eos = frozenset(model.tokenizer.eos_ids) if model.tokenizer else frozenset[int]()
    request = Request(_prompt(model, given), tokens, sampling, eos, (stops,) if isinstance(stops, str) else stops)
    usage = given.get("stream_options", {}).get("include_usage", False)
    top = int(given.get("top_logprobs", 0)) if given.get("logprobs") else None
    return Asked(request, given.get("state"), chat, given.get("stream", False), usage, top)


def _prompt(model: Model, given: Schema) -> list[int]:
    if "messages" in given:
        return chat_ids(model, given["messages"])
    prompt = given["prompt"]
    if model.tokenizer is not None and isinstance(prompt, str):
        prompt = model.tokenizer.encode(prompt, add_special="state" not in given)
    if not prompt:
        raise refusal(400, "invalid", "Expected a prompt of at least one token but it has none", "prompt")
    return [int(i) for i in prompt]


def read(data: bytes, schema: Schema) -> dict[str, Any]:
    """The object in a body, without fields that are null. Raises Refusal that names the first wrong field."""
    try:
        given = {name: value for name, value in parse_object(data, "the request").items() if value is not None}
    except ModelError as error:
        raise refusal(400, "invalid", str(error)) from error
    for name in [*given, *schema["required"]]:
        field = schema["properties"].get(name)
        if field is None:
            raise refusal(400, "unsupported", f"Expected no field {show(name)}: this node does not support it", name)
        if name not in given or not fits(given[name], field):
            got = f"got {show(given[name])}" if name in given else "it is missing"
            raise refusal(400, "invalid", f"Expected {name} to be {field['description']} but {got}", name)
    return given


def fits(value: Any, schema: Schema) -> bool:
    """Whether a value is as a JSON schema says; of JSON schema only what the tables above use."""
    if "anyOf" in schema:
        return any(fits(value, other) for other in schema["anyOf"])
    if "enum" in schema:
        return value in schema["enum"]
    match schema["type"]:
        case "null":
            return value is None
        case "boolean":
            return isinstance(value, bool)
        case "string":
            return isinstance(value, str) and len(value) >= schema.get("minLength", 0)
        case "array":
            right = isinstance(value, list) and schema["minItems"] <= len(value) <= schema.get("maxItems", inf)
            return right and all(fits(item, schema["items"]) for item in value)
        case "object":
            names = schema["properties"]
            right = isinstance(value, dict) and set(schema["required"]) <= value.keys() <= names.keys()
            return right and all(fits(item, names[name]) for name, item in value.items())
    right = type(value) is int or (type(value) is float and (value.is_integer() or schema["type"] == "number"))
    return right and schema["minimum"] <= value <= schema["maximum"] and value > schema.get("exclusiveMinimum", -inf)
