"""Conversations as transformers renders them: whatever version is installed, with a clock that stands still.

python tests/template_judge.py      writes data/template_cases.json, with transformers 4 installed, torch or not
"""

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


# In the manner of public ones, with what they use.
OWN = """\
{%- macro described(tool) %}
{{- tool.function.name }}: {{ tool.function.description }} {{ tool.function.parameters | tojson(indent=2) }}
{%- endmacro %}
{%- set ns = namespace(system="", tools=false) %}
{%- if messages and messages[0].role == "system" %}
    {%- set ns.system = messages[0].content | trim %}
    {%- set messages = messages[1:] %}
{%- endif %}
{{- bos_token }}Today is {{ date_string | default(strftime_now("%d %b %Y"), true) }}. {{ ns.system }}
{% if tools is not none and tools | length > 0 %}
{%- set ns.tools = true %}
Tools:
{% for tool in tools %}
- {{ described(tool) }}
{% endfor %}
{% endif %}
{% for message in messages %}
    {%- if message.role == "user" and loop.previtem is defined and loop.previtem.role == "user" %}
        {{- raise_exception("Two users in a row at " ~ loop.index0) }}
    {%- endif %}
<|{{ message.role }}|>
    {%- if message.reasoning_content is defined and enable_thinking | default(true) %}

<think>{{ message.reasoning_content.split("\\n")[-1] }}</think>
    {%- endif %}
    {%- if message.content is none %}
        {%- for call in message.tool_calls %}

call {{ call.function.name }} {{ call.function.arguments | tojson }} {{ call.function.arguments.items() | list }}
        {%- endfor %}
    {%- elif message.content is string %}

{{ message.content.split("</think>")[-1].lstrip("\\n") }}
    {%- else %}
        {%- for part in message.content if part.type == "text" %}

{{ part.text }}
        {%- endfor %}
    {%- endif %}
{{ eos_token }}
{% endfor %}
{% if add_generation_prompt %}
<|assistant|>
{%- if enable_thinking is defined and enable_thinking is false %}

<think></think>
{%- endif %}
{% endif %}
"""


def without_nulls(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """As transformers 5.24 gives them to a template; 4.57 leaves null as it is."""
    return [{key: value for key, value in message.items() if value is not None} for message in messages]


if __name__ == "__main__":
    import json
    from pathlib import Path

    import transformers

    written = Path(__file__).parent / "data" / "template_cases.json"
    origin = f"tests/template_judge.py: apply_chat_template of transformers {transformers.__version__}"
    cases = {asked: by_transformers(OWN, asked) for asked in ASKED}
    written.write_text(json.dumps({"origin": origin, "cases": cases}, indent=1) + "\n", "utf-8")
