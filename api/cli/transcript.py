"""`gnomon transcript`: text with the evidence of how each token was chosen, made on one engine, verified on any."""

import json
import os
from pathlib import Path
from typing import Annotated

import typer

from gnomon.cli.loaded import engine as make_engine
from gnomon.cli.loaded import load
from gnomon.cli.options import (
    ArmOption,
    EngineOption,
    IdsOption,
    JsonOption,
    KeyOption,
    KvOption,
    ModelArgument,
    PromptOption,
    SeedOption,
    TemperatureOption,
    TopKOption,
    TopPOption,
    present,
    prompt_ids,
    signing_key,
)
from gnomon.cli.receipts import read_public_key
from gnomon.cli.show import progress_bar
from gnomon.decode.transcript import IncomparableError, produce, verify
from gnomon.decode.transcript_file import TranscriptError, read
from gnomon.reference.chain import write
from gnomon.reference.errors import UsageError
from gnomon.reference.ops.sample import Sampling


def group() -> None:
    """Make and verify transcripts."""


def produce_file(
    model: ModelArgument,
    out: Annotated[Path, typer.Option("--out", "-o", help="the file to write")],
    prompt: PromptOption = None,
    ids: IdsOption = None,
    max_tokens: Annotated[int, typer.Option("--max-tokens", "-n", min=1)] = 64,
    engine: EngineOption = "numpy",
    arm: ArmOption = "f32",
    kv: KvOption = "f32",
    temperature: TemperatureOption = 0.0,
    top_k: TopKOption = 0,
    top_p: TopPOption = 1.0,
    seed: SeedOption = 0,
    key_file: KeyOption = None,
    as_json: JsonOption = False,
) -> int:
    """Continue a prompt and write down each token with the digest of the logits that it was chosen from."""
    if os.path.isdir(out) or not os.path.isdir(out.parent):
        raise UsageError(f"Expected --out to name a file in a directory that exists but got {str(out)!r}")
    sampling = Sampling(temperature, top_k, top_p, seed)
    key = signing_key(key_file)
    loaded = load(model)
    tokens = prompt_ids(loaded, ids, prompt)
    running = make_engine(engine, loaded, arm, kv)
    stop = loaded.tokenizer.eos_ids if loaded.tokenizer else ()
    with progress_bar(hidden=as_json) as bar:
        task = bar.add_task("transcript", total=max_tokens)
        made = produce(running, tokens, max_tokens, sampling, stop, key=key, told=lambda _: bar.advance(task))
    write(out, made.chain)
    text = loaded.tokenizer.decode(made.ids) if loaded.tokenizer else None
    if as_json:
        result = {"transcript": str(out), "model": loaded.name, "engine": running.name}
        print(json.dumps({**result, "prompt": tokens, "ids": made.ids, "reason": made.reason, "text": text}))
    else:
        print(" ".join(map(str, made.ids)) if text is None else text)
        print(f"{out}: {len(made.ids)} tokens, ended by {made.reason}, {running.name} on {loaded.name}")
    return 0


def verify_file(
    model: ModelArgument,
    file: Annotated[Path, typer.Argument(metavar="FILE", callback=present("a transcript"), help="a transcript")],
    engine: EngineOption = "numpy",
    arm: ArmOption = "f32",
    kv: KvOption = "f32",
    public_key: Annotated[
        str | None, typer.Option("--public-key", help="64 hex digits: it must be signed by it")
    ] = None,
    as_json: JsonOption = False,
) -> int:
    """Run it again in one pass. Exit 0: every token follows; 1: one does not, or the file was changed; 3: of another
    model, tokenizer, contract, arm or kv than is loaded."""
    key = None if public_key is None else read_public_key(public_key)
    try:
        transcript = read(file, key)
        running = make_engine(engine, load(model), arm, kv)
        with progress_bar(hidden=as_json) as bar:
            task = bar.add_task("verify", total=None)
            verify(running, transcript, lambda done, total: bar.update(task, completed=done, total=total))
    except (TranscriptError, IncomparableError) as error:
        if not as_json:
            raise
        place = {"index": error.index} if isinstance(error, TranscriptError) else {"field": error.field}
        print(json.dumps({"valid": False if error.exit_code == 1 else None, **place, "detail": str(error)}))
        return error.exit_code
    found = {"tokens": len(transcript.tokens), "reason": transcript.reason, "engine": running.name}
    if as_json:
        print(json.dumps({"valid": True, **found, "signature_checked": key is not None}))
    else:
        signed = f", signed by {public_key}" if key else ""
        print(f"all {found['tokens']} tokens follow, ended by {transcript.reason}{signed}; verified on {running.name}")
    return 0
