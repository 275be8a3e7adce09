"""Conversations as transformers renders them: whatever version is installed, with a clock that stands still."""

from datetime import datetime
from typing import Any

NOW = datetime(2026, 3, 4, 5, 6, 7)
SPECIAL = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}
TOOL = {
    "type": "function",
    "function": {
        "name": "shadow_length",
        "description": "Length of a shadow <m>.",
        "parameters": {
            "type": "object",
            "properties": {
                "hour": {"type": "integer", "description": "of the day"},
                "unit": {"type": "string", "enum": ["m", "ft"]},
            },
            "required": ["hour"],
        },
    },
}
CALL = {
    "type": "function",
    "id": "call00001",
    "function": {"name": "shadow_length", "arguments": {"hour": 9, "unit": "m"}},
}
PLAIN = [{"role": "user", "content": "What is a gnomon?"}]
LONG = [
    {"role": "system", "content": "  You are brief.\n"},
    {"role": "user", "content": 'Name <b>two</b> shadows & "quote" them.\n\n\tIndented.'},
    {"role": "assistant", "content": " umbra, penumbra \n"},
    {
        "role": "user",
        "content": "\u00bfY en espa\u00f1ol? \u65e5\u6642\u8a08 \U0001f31e {{ not.a.template }} {% raw %}",
    },
]
CALLED = [
    {"role": "user", "content": "How long at nine?"},
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "call00001", "name": "shadow_length", "content": '{"m": 1.5}'},
]
THOUGHT = [
    {"role": "user", "content": "Count."},
    {"role": "assistant", "content": "<think>\none two\n</think>\n\nTwo.", "reasoning_content": "one two"},
    {"role": "user", "content": "Again."},
]
PARTS = [{"role": "user", "content": [{"type": "text", "text": "in parts"}]}]
# What is asked of every template: messages, tools, arguments, whether the answer begins.
ASKED: dict[str, tuple[list[dict[str, Any]], list[Any] | None, dict[str, Any], bool]] = {
    "plain": (PLAIN, None, {}, True),
    "whole": (LONG, None, {}, False),
    "long": (LONG, None, {}, True),
    "no answer yet": (PLAIN, None, {}, False),
    "tools": (PLAIN, [TOOL], {}, True),
    "called": (CALLED, [TOOL], {}, True),
    "called without tools": (CALLED, None, {}, True),
    "not thinking": (THOUGHT, None, {"enable_thinking": False, "thinking": False}, True),
    "thinking": (THOUGHT, None, {"enable_thinking": True, "reasoning_effort": "high"}, True),
    "a date": (PLAIN, None, {"date_string": "26 Jul 2024"}, True),
    "parts": (PARTS, None, {}, True),
    "nothing": ([], None, {}, True),
    "two of a kind": ([*PLAIN, *PLAIN], None, {}, True),
}


def by_transformers(source: str, asked: str) -> str | None:
    """By apply_chat_template of a tokenizer that has nothing else; None where it fails."""
    import transformers
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from transformers.utils import chat_template_utils

    class Still(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> datetime:
            return NOW

    messages, tools, arguments, answer = ASKED[asked]
    bare = Tokenizer(WordLevel({"<unk>": 0, "<s>": 1, "</s>": 2, "<pad>": 3}, unk_token="<unk>"))
    made = transformers.PreTrainedTokenizerFast(tokenizer_object=bare, **SPECIAL)
    clock, chat_template_utils.datetime = chat_template_utils.datetime, Still
    try:
        return str(
            made.apply_chat_template(
                messages, tools, chat_template=source, tokenize=False, add_generation_prompt=answer, **arguments
            )
        )
    except Exception:
        return None
    finally:
        chat_template_utils.datetime = clock
