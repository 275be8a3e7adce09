"""Conversations -> prompts: the chat template of a model file, rendered in Jinja's sandbox as transformers renders it.

A template is a program of strangers: it runs without access to Python's internals and cannot change what it is given.
There is no clock in it unless the caller passes a time, so that a prompt is a function of its messages; templates that
ask for `strftime_now` only where it is there then take the date that is written in them.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NoReturn

from jinja2 import TemplateError, nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from gnomon.reference.errors import UsageError
from gnomon.reference.model import ChatTemplate, Model

Message = Mapping[str, Any]  # {"role": "user", "content": "..."} and whatever else the template reads


def chat_ids(model: Model, messages: Sequence[Message], *, now: datetime | None = None) -> list[int]:
    """The ids of a conversation, up to where the answer of the model begins.

    A message that spells a special token becomes that token, as everywhere. Raises UsageError where the model has no
    chat template or no tokenizer, or where the template fails.
    """
    if model.chat is None or model.tokenizer is None:
        lacks = "chat template" if model.tokenizer is not None else "tokenizer"
        raise UsageError(f"Expected a {lacks} for a conversation but model {model.name} has none; give a plain prompt")
    text = render(model.chat, messages, now=now)
    ids = model.tokenizer.encode(text, add_special=False)  # a template writes them itself
    if not ids:
        raise UsageError(f"Expected a prompt of at least one token but the chat template of {model.name} gives none")
    return ids


def render(
    template: ChatTemplate, messages: Sequence[Message], *, answer: bool = True, now: datetime | None = None
) -> str:
    """The conversation as text.

    answer: with the start of the model's answer (`add_generation_prompt`); now: what `strftime_now` formats, which
    without it does not exist. Raises UsageError, in one sentence, for whatever goes wrong in the template.
    """
    given = [{key: value for key, value in message.items() if value is not None} for message in messages]
    try:
        compiled = environment(now).from_string(template.source)
        return compiled.render(
            messages=given, tools=None, documents=None, add_generation_prompt=answer, **template.special
        )
    except Exception as error:  # a template may end in any error of Python
        said = " ".join(str(error).split()) or type(error).__name__
        raise UsageError(f"Expected the chat template to take this conversation but it failed: {said:.200}") from error


def environment(now: datetime | None) -> ImmutableSandboxedEnvironment:
    """What templates are written for: blocks leave no line, loops can break, JSON keeps its letters."""
    made = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])
    made.filters["tojson"] = to_json
    made.globals["raise_exception"] = refuse
    if now is not None:
        made.globals["strftime_now"] = now.strftime
    return made


class Generation(Extension):
    """`{% generation %} ... {% endgeneration %}` marks what a model said, for training; here it only says it."""

    tags = {"generation"}  # noqa: RUF012 - the class variable of the base class

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        return nodes.Scope(list(parser.parse_statements(("name:endgeneration",), drop_needle=True)), lineno=line)


def to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """JSON as it is; Jinja's own filter would escape it for HTML."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def refuse(message: object) -> NoReturn:
    """How a template says that it does not take a conversation."""
    raise TemplateError(str(message))
