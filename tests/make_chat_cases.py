"""Write data/chat_cases.json: conversations as transformers renders them.

    python tests/make_chat_cases.py SmolLM2.gguf      with transformers and torch installed

The template of SmolLM2 is read from the file by transformers' own reader of GGUF; the two others were written for this
test in the manner of public ones: one of instructions in brackets, which refuses what it cannot say, and one that uses
what templates use (macros, namespaces, filters, loop controls, tools, a date, whitespace control).
"""

import json
import sys
from pathlib import Path
from typing import Any

import transformers
from tokenizers import Tokenizer
from tokenizers.models import WordLevel

SPECIAL = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}

BRACKETS = """\
{{- bos_token }}
{%- if messages[0].role == "system" %}
    {%- set system = messages[0].content | trim %}
    {%- set rest = messages[1:] %}
{%- else %}
    {%- set rest = messages %}
{%- endif %}
{%- for message in rest %}
    {%- if (message.role == "user") != (loop.index0 % 2 == 0) %}
        {{- raise_exception("Roles must alternate: user, assistant, user, ...") }}
    {%- endif %}
    {%- if message.role == "user" %}
        {%- if loop.first and system is defined %}
            {{- "[INST] " + system + "\\n\\n" + message.content + " [/INST]" }}
        {%- else %}
            {{- "[INST] " ~ message["content"] ~ " [/INST]" }}
        {%- endif %}
    {%- else %}
        {{- " " + message.content.strip() + eos_token }}
    {%- endif %}
{%- endfor %}
"""

BLOCKS = """\
{# a comment leaves nothing #}
{% macro turn(role, text) %}
<|{{ role }}|>
{{ text }}{{ eos_token }}
{% endmacro %}
{% set ns = namespace(seen=0, last=none) %}
{% if not date_string is defined %}
    {% if strftime_now is defined %}
        {% set date_string = strftime_now("%d %b %Y") %}
    {% else %}
        {% set date_string = "26 Jul 2024" %}
    {% endif %}
{% endif %}
{% if tools %}tools: {{ tools | tojson(indent=2) }}
{% endif %}
Date: {{ date_string }}
  {% for message in messages %}
    {% if message.role == "note" %}{% continue %}{% endif %}
    {% if ns.seen >= 3 %}{% break %}{% endif %}
    {% set ns.seen = ns.seen + 1 %}
    {% if message.role == "assistant" %}
{% generation %}{{ turn("assistant", message.content) }}{% endgeneration %}
    {% elif message.content is string %}
{{ turn(message.role, message.content | trim | replace("\\t", " ")) }}
    {% else %}
{{ turn(message.role, message.content | selectattr("type", "equalto", "text") | map(attribute="text") | join(" ")) }}
    {% endif %}
    {% set ns.last = message %}
  {% endfor %}
seen {{ ns.seen }} of {{ messages | length }}; last {{ ns.last | tojson }} {{ pad_token }}
{% if add_generation_prompt %}
<|assistant|>
{% endif %}
"""

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
ODD = [
    {"role": "note", "content": "left out"},
    {
        "role": "user",
        "content": [{"type": "image"}, {"type": "text", "text": "a"}, {"type": "text", "text": "b"}],
        "name": None,
    },
    {
        "role": "assistant",
        "content": "<|im_end|>",
        "tool_calls": [{"name": "f", "arguments": {"x": 1.5, "y": [True, None]}}],
    },
    {"role": "user", "content": "three"},
    {"role": "user", "content": "four: too many"},
]
CONVERSATIONS = {"plain": PLAIN, "long": LONG, "odd": ODD}
TEMPLATES = {"brackets": (BRACKETS, ["plain", "long"]), "blocks": (BLOCKS, ["plain", "long", "odd"])}


def rendered(template: str, special: dict[str, str], messages: list[dict[str, Any]], answer: bool) -> str:
    """By apply_chat_template of a tokenizer that has nothing else."""
    bare = Tokenizer(WordLevel({"<unk>": 0, "<s>": 1, "</s>": 2}, unk_token="<unk>"))
    made = transformers.PreTrainedTokenizerFast(tokenizer_object=bare, **special)
    # No clock: strftime_now counts as not defined, as in versions of transformers that did not have it.
    source = "{% set strftime_now = undefined_name %}" + template
    return made.apply_chat_template(messages, chat_template=source, tokenize=False, add_generation_prompt=answer)


def main(gguf: Path) -> None:
    smollm2 = transformers.AutoTokenizer.from_pretrained(str(gguf.parent), gguf_file=gguf.name)
    special = {name: getattr(smollm2, name) for name in (*SPECIAL, "pad_token")}
    cases = []
    for name, (source, conversations) in {"smollm2": (smollm2.chat_template, ["plain", "long"]), **TEMPLATES}.items():
        for conversation in conversations:
            for answer in (True, False):
                own = special if name == "smollm2" else SPECIAL
                text = rendered(source, own, CONVERSATIONS[conversation], answer)
                case = {"template": name, "conversation": conversation, "answer": answer, "text": text}
                if name == "smollm2":
                    case["ids"] = smollm2(text, add_special_tokens=False)["input_ids"]
                cases.append(case)
    path = Path(__file__).parent / "data" / "chat_cases.json"
    origin = f"tests/make_chat_cases.py: apply_chat_template of transformers {transformers.__version__}"
    tree = {
        "origin": origin,
        "templates": {
            "smollm2": {"source": smollm2.chat_template, "special": special},
            **{name: {"source": source, "special": SPECIAL} for name, (source, _) in TEMPLATES.items()},
        },
        "conversations": CONVERSATIONS,
        "cases": cases,
    }
    path.write_text(json.dumps(tree, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
