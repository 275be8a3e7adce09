"""Conversations -> prompts: the chat template of a model file, rendered as transformers renders it.

A template is a program of strangers: it runs without access to Python's internals, cannot change what it is given, and
does so in a process with bounds of memory and time. There is no clock in it unless the caller passes a time, so that a
prompt is a function of its messages; templates that ask for `strftime_now` only where it is there then take the date
that is written in them.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from gnomon.reference.confined import Confined, DiedError, RefusedError
from gnomon.reference.errors import UsageError
from gnomon.reference.model import ChatTemplate, Model
from gnomon.reference.strict_json import show

Message = Mapping[str, Any]  # {"role": "user", "content": "..."} and whatever else the template reads
Arguments = Mapping[str, Any]  # such as {"enable_thinking": False}

GIVEN = ("messages", "tools", "documents", "add_generation_prompt")  # what every template is given
RENDERER = Confined(Path(__file__).with_name("template_child.py"), mebibytes=512, seconds=5)


def chat_ids(
    model: Model,
    messages: Sequence[Message],
    *,
    now: datetime | None = None,
    tools: Sequence[Any] | None = None,
    arguments: Arguments | None = None,
) -> list[int]:
    """The ids of a conversation, up to where the answer of the model begins.

    A message that spells a special token becomes that token, as everywhere. Raises UsageError where the model has no
    chat template or no tokenizer, or where the template fails. now, tools, arguments: see `render`
    """
    if model.chat is None or model.tokenizer is None:
        lacks = "chat template" if model.tokenizer is not None else "tokenizer"
        raise UsageError(f"Expected a {lacks} for a conversation but model {model.name} has none; give a plain prompt")
    text = render(model.chat, messages, now=now, tools=tools, arguments=arguments)
    ids = model.tokenizer.encode(text, add_special=False)  # a template writes them itself
    if not ids:
        raise UsageError(f"Expected a prompt of at least one token but the chat template of {model.name} gives none")
    return ids


def render(
    template: ChatTemplate,
    messages: Sequence[Message],
    *,
    answer: bool = True,
    now: datetime | None = None,
    tools: Sequence[Any] | None = None,
    arguments: Arguments | None = None,
) -> str:
    """The conversation as text.

    answer: with the start of the model's answer (`add_generation_prompt`); now: what `strftime_now` formats, which
    without it does not exist; tools: descriptions of functions, as JSON schemas; arguments: further variables, before
    the special tokens. Raises UsageError, in one sentence, for whatever goes wrong in the template.
    """
    if taken := sorted(set(GIVEN) & set(arguments or {})):
        raise UsageError(f"Expected arguments of the chat template other than {', '.join(GIVEN)} but got {taken[0]}")
    if not messages:
        raise UsageError("Expected a conversation of at least one message but it has none")
    variables = {
        **template.special,
        **(arguments or {}),
        "messages": [dict(message) for message in messages],
        "tools": None if tools is None else list(tools),
        "documents": None,
        "add_generation_prompt": answer,
    }
    request = {"source": template.source, "variables": variables, "now": None if now is None else now.isoformat()}
    try:
        return str(RENDERER.ask(request))
    except (RefusedError, DiedError) as error:
        raise UsageError(
            f"Expected the chat template to take this conversation but it failed: {error!s:.200}"
        ) from None
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"Expected messages of texts, numbers, lists and objects but got: {show(str(error))}"
        ) from None
