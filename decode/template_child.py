"""Chat templates, rendered in Jinja's sandbox as transformers renders them. Run by confined.py."""

import json
from datetime import datetime
from functools import lru_cache
from typing import Any, NoReturn

from jinja2 import Template, TemplateError, nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

LONGEST = 16 << 20  # characters of a prompt


def answer(request: Any) -> str:
    """source: the template; variables: what it may name; now: ISO 8601, or None for no clock"""
    template, environment = compiled(request["source"])
    environment.globals.pop("strftime_now", None)
    if request["now"] is not None:
        environment.globals["strftime_now"] = datetime.fromisoformat(request["now"]).strftime
    text = template.render(**request["variables"])
    if len(text) > LONGEST:
        raise TemplateError(f"it gives {len(text)} characters, more than {LONGEST}")
    return text


@lru_cache(maxsize=4)
def compiled(source: str) -> tuple[Template, ImmutableSandboxedEnvironment]:
    """In what templates are written for: blocks leave no line, loops can break, JSON keeps its letters."""
    made = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])
    made.filters["tojson"] = to_json
    made.globals["raise_exception"] = refuse
    return made.from_string(source), made


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
