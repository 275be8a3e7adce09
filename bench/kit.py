"""One engine on this machine, in one command: everything that can be asked of it, and one receipt.

    python bench/kit.py --engine cupy --receipt receipt-cuda.jsonl

Steps, each a process of its own: probe of the arithmetic; known answers through every op; the shared test bodies; all
gates; digests of logits beside the engine `host` (or `numpy`) on micro, both tiny models and a random bf16 model made
here; speed, and gate `roofline`, both of which are reported and judge nothing. The receipt is a hash chain
(reference/chain.py): what ran and on what, a line per step, a summary. Exit 0: every step that judges passed; 1: one
failed; 3: one could not be run.

On machines of others: bench/on_cuda.sh, bench/on_rocm.sh, bench/on_mac.sh.
"""

import hashlib
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console

import gnomon
from gnomon.gates.receipt import run_record, scrub
from gnomon.gates.roofline import decoder
from gnomon.loading import load
from gnomon.reference.chain import Chain, write
from gnomon.reference.errors import GnomonError, NotRunError
from gnomon.reference.model import Model

ROOT = Path(__file__).parents[1]
BODIES = ("ops", "forms", "schedules", "batches", "state", "isolate")
WORDS = {0: "PASS", 1: "FAIL", 2: "FAIL", 3: "NOT RUN"}
RANDOM_BYTES = {"cupy": 2 << 30}  # of the random model, where a GPU has memory of its own
ELSEWHERE, SHORT = 512 << 20, 1 << 20
PROMPT, TOKENS = [3, 14, 15, 92, 65, 35, 89, 79], 8
say = Console(emoji=False, highlight=False, soft_wrap=True).print


@dataclass(frozen=True)
class Step:
    """judges: whether the verdict of the kit depends on it"""

    name: str
    command: Sequence[str]
    judges: bool = True


def steps(engine: str, short: bool) -> list[Step]:
    """short: a part of each, for the test of this kit"""
    run = [sys.executable, "-c", "from gnomon.cli import main; main()"]
    one = ["-e", engine]
    bodies = [str(ROOT / "tests" / f"test_{name}.py") for name in (BODIES[1:2] if short else BODIES)]
    chosen = f"{engine} and asked_for" if short else engine
    pytest = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", chosen, *bodies]
    again = [sys.executable, str(Path(__file__)), "--engine", engine, "--digests", *(["--short"] if short else [])]
    bench = ["bench", "micro" if short else "tiny-dense", *one, "--seconds", "0" if short else "10", "--json"]
    return [
        Step("probe", [*run, "probe", *one, "--json"]),
        Step("vectors", [*run, "selftest", *one, "--json"]),
        Step("tests", pytest),
        Step("gates", [*run, "gate", *(["settled"] if short else []), *one, "--json"]),
        Step("digests", again),
        Step("speed", [*run, *bench, *(["--position", "0", "--prefill", "16"] if short else [])], judges=False),
        *([] if short else [Step("roofline", [*run, "gate", "roofline", *one, "--json"], judges=False)]),
    ]


def main(
    engine: Annotated[str, typer.Option("--engine", "-e")],
    receipt: Annotated[Path | None, typer.Option("--receipt", help="the file to write")] = None,
    short: Annotated[bool, typer.Option("--short", help="a part of each step, for a test of the kit")] = False,
    digests: Annotated[bool, typer.Option("--digests", help="that step alone, here")] = False,
    limit: Annotated[float, typer.Option("--limit", help="seconds of one step")] = 600.0,
) -> None:
    """Run the steps, say each, write the receipt."""
    if digests:
        raise typer.Exit(compare_digests(engine, short))
    chain = Chain()
    chain.append(scrub(run_record("kit")))
    chain.append(scrub(described(engine)))
    codes = []
    for step in steps(engine, short):
        code, seconds, told = ran(step.command, limit)
        codes += [code] if step.judges else []
        record = {"type": "step", "name": step.name, "verdict": WORDS.get(code, "FAIL"), "judges": step.judges}
        chain.append(scrub(record | {"seconds": round(seconds, 1), **told}))
        say(f"{record['verdict']:<8} {step.name:<9} {seconds:6.1f} s  {last_words(told)}", markup=False)
    worst = next((c for c in (1, 3) if c in codes), 0) if set(codes) <= {0, 1, 3} else 1
    chain.append({"type": "summary", "engine": engine, "verdict": WORDS[worst], "exit_code": worst, "short": short})
    chain.close(WORDS[worst])
    if receipt is not None:
        write(receipt, chain)
        say(f"{WORDS[worst]}; receipt: {receipt}", markup=False)
    raise typer.Exit(worst)


def described(engine: str) -> dict[str, Any]:
    """What the engine says of itself, or why it does not run."""
    try:
        return {"type": "engine", "name": engine, "settings": gnomon.engine(engine, load("micro")).describe()}
    except GnomonError as error:
        return {"type": "engine", "name": engine, "absent": str(error)}


def ran(command: Sequence[str], limit: float) -> tuple[int, float, dict[str, Any]]:
    """Exit code, seconds, and what it printed: the last line, as JSON where it is, and the digest of all of it"""
    began = time.perf_counter()
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=limit, check=False)
    except subprocess.TimeoutExpired:
        return 1, time.perf_counter() - began, {"output": f"Expected an end within {limit:.0f} s but there was none"}
    lines = [line for line in (done.stdout.strip() or done.stderr.strip()).splitlines() if line]
    told: dict[str, Any] = {"output_sha256": hashlib.sha256(done.stdout.encode()).hexdigest()}
    try:
        told["result"] = json.loads(lines[-1])
    except (ValueError, IndexError):
        told["output"] = "\n".join(lines[-3:] if not done.returncode else lines[-30:])
    return done.returncode, time.perf_counter() - began, told


def last_words(told: dict[str, Any]) -> str:
    result = told.get("result")
    if isinstance(result, dict):
        return str(result.get("fingerprint") or result.get("verdict") or result.get("detail") or "")[:80]
    return str(told.get("output", "")).splitlines()[-1][:80] if told.get("output") else ""


# --- digests ----------------------------------------------------------------------------------------------------------
def compare_digests(engine: str, short: bool) -> int:
    """One line of JSON: per model, SHA-256 over the logits of a prompt and of greedy tokens, on two engines. 0: same"""
    found: dict[str, dict[str, str]] = {}
    models = [load(name) for name in (["micro"] if short else ["micro", "tiny-dense", "tiny-hybrid"])]
    models.append(decoder(SHORT if short else RANDOM_BYTES.get(engine, ELSEWHERE)))
    beside = "numpy" if gnomon.engines()["host"] or engine == "host" else "host"
    try:
        for model in models:
            found[model.name] = {name: digest(name, model) for name in (beside, engine)}
    except NotRunError as error:
        print(json.dumps({"verdict": "NOT RUN", "detail": str(error)}))
        return 3
    same = all(len(set(each.values())) == 1 for each in found.values())
    print(json.dumps({"verdict": "PASS" if same else "FAIL", "digests": found}))
    return 0 if same else 1


def digest(name: str, model: Model) -> str:
    running, total = gnomon.engine(name, model), hashlib.sha256()
    ids = [i % model.config.vocab for i in PROMPT]
    logits, state = running.forward(ids, want="all")
    for _ in range(TOKENS):
        total.update(np.ascontiguousarray(logits, "<f4").data)
        logits, state = running.forward([int(np.argmax(logits[-1]))], state)
    running.close()
    return total.hexdigest()


if __name__ == "__main__":
    typer.run(main)
