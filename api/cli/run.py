"""`gnomon run`: continue a prompt, text as it comes."""

import json
from collections.abc import Iterator
from typing import Annotated

import typer

from gnomon.cli.options import (
    ArmOption,
    EngineOption,
    IdsOption,
    JsonOption,
    KvOption,
    ModelArgument,
    PromptOption,
    prompt_ids,
)
from gnomon.engines import engine as make_engine
from gnomon.loading import load


def command(
    model: ModelArgument,
    prompt: PromptOption = None,
    ids: IdsOption = None,
    max_tokens: Annotated[int, typer.Option("--max-tokens", "-n", min=1)] = 64,
    engine: EngineOption = "numpy",
    arm: ArmOption = "f32",
    kv: KvOption = "f32",
    as_json: JsonOption = False,
) -> int:
    """Continue a prompt greedily; text streams as it comes (ids, for a model without a tokenizer)."""
    loaded = load(model)
    tokenizer = loaded.tokenizer
    prompt_tokens = prompt_ids(loaded, ids, prompt)
    eos = frozenset(tokenizer.eos_ids) if tokenizer else frozenset[int]()
    made: list[int] = []

    running = make_engine(engine, loaded, arm, kv)

    def tokens() -> Iterator[int]:
        for token in running.generate(prompt_tokens, max_tokens, stop=eos.__contains__):
            made.append(token)
            yield token

    if as_json:
        list(tokens())
        text = tokenizer.decode(made) if tokenizer else None
        print(
            json.dumps(
                {"model": loaded.name, "engine": running.name, "prompt": prompt_tokens, "ids": made, "text": text}
            )
        )
    elif tokenizer:
        print(tokenizer.decode(prompt_tokens), end="", flush=True)
        for piece in tokenizer.stream(tokens()):
            print(piece, end="", flush=True)
        print()
    else:
        for token in tokens():
            print(token, end=" ", flush=True)
        print()
    return 0
