"""The experiment `ids` on llama.cpp: do ids, counters, bytes, the transport tell an exchanged state from the right one?

    python bench/ids_llama.py MODEL.gguf [--flash-attention auto --flash-attention off] [--threads 1]

Conversations, count of tokens and bar are those of `gnomon gate ids`, fixed before its first run. A sequence is saved
by `llama_state_seq_get_data` and loaded by `llama_state_seq_set_data` into a context that was just made; without flash
attention llama.cpp stores values transposed, which is the other layout of a state. Beside the experiment: the logits of
each continuation against those of the unmoved conversation, bit for bit, and which single bits of a saved state
llama.cpp refuses. Exit code 1 if an honest state does not come back right or ids miss the bar. Ends with one line of
JSON.
"""

import importlib.util
import json
from collections.abc import Sequence
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from gnomon.gates.gate import VoidError
from gnomon.gates.ids import HEADER, Trial, experiment, judged, power
from gnomon.gates.ids_subject import RefusedError
from gnomon.reference.errors import GnomonError, NotRunError

if TYPE_CHECKING:
    from llama_states import LlamaSubject

Flash = StrEnum("Flash", ["auto", "off", "on"])
STATES = ("honest", "exchanged", "flipped")
CHECKED = 1  # the conversation whose saved state is changed bit by bit: of more than one cell


def with_logits(trials: Sequence[Trial], subject: "LlamaSubject") -> list[dict[str, Any]]:
    """Rows for the table: each trial, its counters as llama.cpp names them, and whether its logits are those of the
    unmoved conversation. `experiment` continues the unmoved one first, then each state that was taken."""
    runs, rows, unmoved = iter(subject.continuations), [], None
    for trial in trials:
        if trial.state == STATES[0]:
            unmoved = next(runs)
        row = trial.row() | {"said": trial.refused}
        if not trial.refused and unmoved is not None:
            run = next(runs)
            counted = {name: value for name, value in asdict(run).items() if name != "logits"}
            row |= {"logits": run.logits == unmoved.logits} | counted
        rows.append(row)
    return rows


def single_bits(subject: "LlamaSubject", text: str) -> dict[str, str]:
    """The lowest bit of the first byte of every kind of field is another one -> what llama.cpp said, "" where it took
    the state; so for a byte too few and one too many."""
    from llama_states import flipped, layout

    subject.prefill(subject.encode(text))
    saved = subject.save()
    changed = {name: flipped(saved, at) for name, at in layout(saved).at.items()}
    changed |= {"a byte too few": saved[:-1], "a byte too many": saved + b"\0"}
    answers = {}
    for name, data in changed.items():
        try:
            subject.load(data)
            answers[name] = ""
        except RefusedError as error:
            answers[name] = str(error)
    return answers


def table(rows: Sequence[dict[str, Any]]) -> Table:
    """Counts over the conversations, a line for each subject and state; nothing is asked of a refused state."""
    columns = {
        "refused by transport": "refused", "verified by bytes": "verified", "back as sent": "kept",
        "counters right": "counters", "logits right": "logits", "ids right": "ids",
    }  # fmt: skip
    out = Table("subject", "state", *columns, box=None, pad_edge=False)
    for name in dict.fromkeys(row["subject"] for row in rows):
        for state in STATES:
            found = [row for row in rows if row["subject"] == name and row["state"] == state]
            cells = []
            for column in columns.values():
                asked = [row[column] for row in found if row.get(column) is not None]
                cells.append(f"{sum(asked)} of {len(asked)}" if asked else "")
            out.add_row(name, state, *cells)
    return out


def main(
    model: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="a GGUF file of a model without delta")],
    flash_attention: Annotated[list[Flash] | None, typer.Option(help="else auto and off")] = None,
    threads: Annotated[int, typer.Option(min=1)] = 1,
) -> None:
    """Run the experiment; see the head of this file."""
    say = Console(stderr=True, width=180).print
    trials, rows, bits, facts = list[Trial](), list[dict[str, Any]](), dict[str, dict[str, str]](), dict[str, str]()
    try:
        if importlib.util.find_spec("llama_cpp") is None:
            raise NotRunError("Expected llama-cpp-python but it is not installed: pip install 'gnomon[peers]'")
        import llama_cpp
        from llama_states import LlamaSubject
        from peer_llama import ggml_says

        facts = {"package": f"llama-cpp-python {llama_cpp.__version__}"}
        facts |= {"ggml": ggml_says("ggml_version"), "commit": ggml_says("ggml_commit")}
        for flash in flash_attention or [Flash.auto, Flash.off]:
            subject = LlamaSubject(model, flash, threads=threads)
            say(subject.name, markup=False)
            found = experiment(subject)
            trials, rows = trials + found, rows + with_logits(found, subject)
            bits[subject.name] = single_bits(subject, HEADER.numbers["conversations"][CHECKED])
            subject.close()
    except (GnomonError, VoidError) as error:
        say(str(error), markup=False)
        raise typer.Exit(getattr(error, "exit_code", NotRunError.exit_code)) from error
    # What the gate asks of our own transport, that it refuses a flipped state, is here only counted.
    outcome = judged([trial for trial in trials if trial.state != "flipped"])
    powers = {name: power(t for t in trials if t.subject == name) for name in bits}
    say(table(rows))
    for name, (told, of, low, high) in powers.items():
        say(f"{name}: ids tell {told} of {of} exchanged states, 95 % interval {low:.3f} to {high:.3f}", markup=False)
        taken = [field for field, answer in bits[name].items() if not answer]
        say(f"  of {len(bits[name])} changed states it takes those changed in: {', '.join(taken)}", markup=False)
    honest = [row["logits"] for row in rows if row["state"] == "honest" and not row["refused"]]
    say(
        f"honest states whose logits are those of the unmoved conversation, bit for bit: {sum(honest)} of {len(honest)}"
    )
    say(f"{outcome.verdict}  {outcome.detail}".rstrip(), markup=False)
    record = {
        "bench": "ids_llama", "model": model.name, "threads": threads, **facts,
        "tokens": HEADER.numbers["tokens"], "bar": HEADER.numbers["bar"], "verdict": outcome.verdict,
        "detail": outcome.detail, "power": powers, "single_bits": bits, "trials": rows,
    }  # fmt: skip
    print(json.dumps(record))
    raise typer.Exit(0 if outcome.verdict == "PASS" else 1)


if __name__ == "__main__":
    typer.run(main)
