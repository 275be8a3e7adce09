"""`gnomon digest`: what two machines compare. Every tensor of a prompt as one SHA-256."""

import hashlib
import json
import sys
from typing import Annotated, Any

import numpy as np
import typer

from gnomon.cli.loaded import engine as make_engine
from gnomon.cli.loaded import load
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
from gnomon.cli.show import progress_bar
from gnomon.reference.engine import Engine
from gnomon.reference.identity import arithmetic, text
from gnomon.reference.protocol import F32


class Hashes:
    """A tap that keeps one hash per name. The state is hashed from its export, so its names are left out."""

    def __init__(self) -> None:
        self.taps: dict[str, str] = {}

    def wants(self, name: str) -> bool:
        return ".kv." not in name

    def __call__(self, name: str, value: F32, pos: Any, op: str, inputs: tuple[str, ...]) -> None:
        self.taps[name] = sha256(value)


def sha256(value: Any) -> str:
    """Over the little-endian bytes in C order."""
    little = np.ascontiguousarray(value).astype(value.dtype.newbyteorder("<"), copy=False)
    return hashlib.sha256(little.data).hexdigest()


def command(
    model: ModelArgument,
    ids: IdsOption = None,
    prompt: PromptOption = None,
    steps: Annotated[int, typer.Option("--steps", min=0, help="greedy tokens decoded after the prompt")] = 0,
    engine: EngineOption = "numpy",
    arm: ArmOption = "f32",
    kv: KvOption = "f32",
    as_json: JsonOption = False,
) -> int:
    """SHA-256 of every tensor of a prompt, and of the last logits after decoding a few tokens greedily."""
    loaded = load(model)
    tokens = prompt_ids(loaded, ids, prompt)
    running = make_engine(engine, loaded, arm, kv)
    with progress_bar(hidden=as_json) as bar:
        task = bar.add_task("digest", total=1 + steps)
        result = digest(running, tokens, steps, lambda: bar.advance(task))
    if as_json:
        print(json.dumps(result))
    else:
        print("model", result["model"])
        print("config", text(result["config"]))
        print("logits", result["logits_sha256"])
        for part in ("taps", "state"):
            for name, value in result[part].items():
                print(name, value)
        if steps:
            print("greedy", *result["greedy"])
        print("last_logits", result["last_logits_sha256"])
    if result["logits_sha256"] == result["unwatched_logits_sha256"]:
        return 0
    print(
        f"Expected the same logits watched and unwatched but engine {running.name} gave others without a tap; "
        f"`gnomon diff {loaded.name} -e numpy -e {running.name}` says where",
        file=sys.stderr,
    )
    return 1


def digest(engine: Engine[Any], ids: list[int], steps: int, advance: Any = lambda: None) -> dict[str, Any]:
    """The object that --json prints.

    logits_sha256: logits of all prompt rows [rows, vocab]; greedy: ids decoded one at a time after the prompt;
    last_logits_sha256: the row produced after consuming the last of them; taps, state: after the prompt pass
    unwatched_logits_sha256: of the same prompt rows without a tap, from which decoding goes on
    model: digest of the weights; config: the fields that touch arithmetic, so that another model is seen as one
    """
    tap = Hashes()
    logits, state = engine.forward(ids, want="all", tap=tap)
    advance()
    plain, after = engine.forward(ids, want="all")
    result = {
        "model": engine.model.digest,
        "config": arithmetic(engine.model),
        "logits_sha256": sha256(logits),
        "unwatched_logits_sha256": sha256(plain),
        "taps": tap.taps,
        "state": {name: sha256(array) for name, array in engine.export(state).items()},
    }
    greedy: list[int] = []
    logits, state = plain, after
    for _ in range(steps):
        greedy.append(int(np.argmax(logits[-1])))
        logits, state = engine.forward([greedy[-1]], state)
        advance()
    return {**result, "greedy": greedy, "last_logits_sha256": sha256(logits[-1])}
