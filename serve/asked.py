"""What a client may ask. One table of fields is what requests are checked by and what /openapi.json shows."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from math import inf
from typing import Any

from gnomon.decode.chat import chat_ids
from gnomon.decode.text import Request
from gnomon.reference.errors import ModelError
from gnomon.reference.model import Model
from gnomon.reference.ops.sample import Sampling
from gnomon.reference.strict_json import parse_object, show
from gnomon.serve.refusal import Refusal, refusal

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
STOP_TEXT = TEXT | {"maxLength": 1024}
STOP = either(
    "a text of 1 to 1024 characters, or up to 4",
    STOP_TEXT,
    a("texts", "array", items=STOP_TEXT, minItems=1, maxItems=4),
)
ANYTHING = a("an object", "object")  # of which the chat template knows what it means
OBJECTS = a("objects", "array", items=ANYTHING, minItems=0)
MESSAGE = an_object(
    "",
    ["role", "content"],
    role=TEXT,
    content=either("text or null", a("text", "string"), {"type": "null"}),
    reasoning_content=a("text", "string"),
    tool_calls=OBJECTS,
    tool_call_id=TEXT,
)
CHAT = {
    "messages": a(
        'objects with "role" and "content", both text; content may be null; beside them only "reasoning_content", '
        '"tool_calls" and "tool_call_id"',
        "array",
        items=MESSAGE,
        minItems=1,
    ),
    "tools": OBJECTS,
    "chat_template_kwargs": ANYTHING,
    "max_completion_tokens": whole(1, 1 << 20),
    "logprobs": TRUTH,
    "top_logprobs": whole(0, 20),
}


def answer_schema(model: Model, *, chat: bool) -> Schema:
    """Of a request for /v1/chat/completions or /v1/completions, with this model."""
    config = model.config
    said = f"at most {config.max_positions} token ids below {config.vocab}, or text where there is a tokenizer"
    ids = a(said, "array", items=whole(0, config.vocab - 1), minItems=1, maxItems=config.max_positions)
    fields = {**COMMON, "model": {"enum": [model.name], "description": f"{model.name!r}, which runs here"}}
    if model.tokenizer is not None:
        fields["stop"] = STOP
    if chat:
        return an_object("", ["messages"], **fields, **CHAT)
    prompt = ids if model.tokenizer is None else either(said, TEXT, ids)
    return an_object("", ["prompt"], **fields, prompt=prompt, state=STATE)


def asked(model: Model, data: bytes, *, chat: bool, arguments: Mapping[str, Any] | None = None) -> Asked:
    """The request in a body. arguments: of the chat template, where the request does not name them

    Raises Refusal that names the field, UsageError where chat template or tokenizer fail.
    """
    given = read(data, answer_schema(model, chat=chat))
    sampling = Sampling(
        given.get("temperature", 1.0), int(given.get("top_k", 0)), given.get("top_p", 1.0), int(given.get("seed", 0))
    )
    tokens = int(given.get("max_completion_tokens", given.get("max_tokens", 512 if chat else 16)))
    stops = given.get("stop", ())
    stops = (stops,) if isinstance(stops, str) else stops
    eos = frozenset(model.tokenizer.eos_ids) if model.tokenizer else frozenset[int]()
    request = Request(
        _prompt(model, given, arguments or {}), tokens, sampling, eos, (stops,) if isinstance(stops, str) else stops
    )
    usage = given.get("stream_options", {}).get("include_usage", False)
    top = int(given.get("top_logprobs", 0)) if given.get("logprobs") else None
    return Asked(request, given.get("state"), chat, given.get("stream", False), usage, top)


def _prompt(model: Model, given: Schema, arguments: Mapping[str, Any]) -> list[int]:
    most = model.config.max_positions
    if "messages" in given:
        where, ids = "messages", _chat_ids(model, given, arguments)
    else:
        where, ids = "prompt", given["prompt"]
        if model.tokenizer is not None and isinstance(ids, str):
            if len(ids) > most * model.tokenizer.longest * 4:  # shorter where white space or accents fall away
                raise too_long(f"a text of {len(ids)} characters", most, where)
            ids = model.tokenizer.encode(ids, add_special="state" not in given)
    if not ids:
        raise refusal(400, "invalid", "Expected a prompt of at least one token but it has none", where)
    if len(ids) > most:
        raise too_long(str(len(ids)), most, where)
    return [int(i) for i in ids]


def too_long(got: str, most: int, where: str) -> Refusal:
    sentence = f"Expected a prompt of at most max_positions={most} tokens but got {got}"
    return refusal(400, "context_length_exceeded", sentence, where)


def _chat_ids(model: Model, given: Schema, arguments: Mapping[str, Any]) -> list[int]:
    tools = given.get("tools")
    if tools and model.chat is not None and "tools" not in model.chat.source:
        sentence = f"Expected no tools: the chat template of {model.name} has no place for them"
        raise refusal(400, "unsupported", sentence, "tools")
    messages = [called(message) for message in given["messages"]]
    arguments = {**arguments, **given.get("chat_template_kwargs", {})}
    return chat_ids(model, messages, now=datetime.now(), tools=tools, arguments=arguments)


def called(message: dict[str, Any]) -> dict[str, Any]:
    """A message whose calls have their arguments as objects, as templates read them; clients send them as JSON text."""
    calls = message.get("tool_calls")
    return message if not calls else {**message, "tool_calls": [with_object(call) for call in calls]}


def with_object(call: dict[str, Any]) -> dict[str, Any]:
    match call:
        case {"function": {"arguments": str(text)} as function}:
            try:
                parsed = json.loads(text)
            except (ValueError, RecursionError):  # what is no JSON stays text
                return call
            return {**call, "function": {**function, "arguments": parsed}}
    return call


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
            if too_many := longer(given.get(name), field):
                got = f"it has {too_many}"
            raise refusal(400, "invalid", f"Expected {name} to be {field['description']} but {got}", name)
    return given


def longer(value: Any, schema: Schema) -> str:
    """How long a value is that is too long; "" for any other."""
    kinds = [one for one in schema.get("anyOf", [schema]) for one in one.get("anyOf", [one])]
    most, kind = ("maxLength", "characters") if isinstance(value, str) else ("maxItems", "items")
    limits = [one[most] for one in kinds if most in one]
    return f"{len(value)} {kind}" if isinstance(value, str | list) and limits and len(value) > max(limits) else ""


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
            return isinstance(value, str) and schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", inf)
        case "array":
            right = isinstance(value, list) and schema["minItems"] <= len(value) <= schema.get("maxItems", inf)
            return right and all(fits(item, schema["items"]) for item in value)
        case "object":
            if "properties" not in schema:
                return isinstance(value, dict)
            names = schema["properties"]
            right = isinstance(value, dict) and set(schema["required"]) <= value.keys() <= names.keys()
            return right and all(fits(item, names[name]) for name, item in value.items())
    right = type(value) is int or (type(value) is float and (value.is_integer() or schema["type"] == "number"))
    return right and schema["minimum"] <= value <= schema["maximum"] and value > schema.get("exclusiveMinimum", -inf)
