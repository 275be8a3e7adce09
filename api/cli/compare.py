"""`gnomon compare`: two traces, a trace and a dump of other software, or two dumps, bit for bit."""

import os
import shlex
from pathlib import Path
from typing import Annotated

import typer

from gnomon.cli.options import JsonOption, present
from gnomon.cli.show import HtmlOption, VerboseOption, show
from gnomon.compare.aliases import ALIASES
from gnomon.compare.dump_pair import compare_dumps
from gnomon.compare.report import Report
from gnomon.compare.trace_compare import compare_dump, compare_traces
from gnomon.compare.trace_import import READERS, Dump, files_of
from gnomon.compare.trace_map import read_map
from gnomon.compare.trace_read import Trace
from gnomon.reference.errors import UsageError


def known_map(mapping: str | None) -> str | None:
    """Refuse what is neither a table nor a file."""
    if mapping is not None and mapping not in ALIASES:
        present(f"a table ({', '.join(ALIASES)}) or a file")(Path(mapping))
    return mapping


def command(
    expected: Annotated[
        Path,
        typer.Argument(
            metavar="EXPECTED",
            callback=present("a trace directory or a dump"),
            help="the expected side: a trace or a dump",
        ),
    ],
    observed: Annotated[
        Path,
        typer.Argument(
            metavar="OBSERVED",
            callback=present("a trace or a dump"),
            help="a trace, or a file or directory of .npy, .npz, .safetensors, .pt",
        ),
    ],
    mapping: Annotated[
        str | None,
        typer.Option(
            "--map", callback=known_map, help="lines foreign = ours, JSON, or: hugging-face, transformer-lens, ggml"
        ),
    ] = None,
    digests: Annotated[bool, typer.Option("--digests", help="compare digests only; no tensor is read")] = False,
    html: HtmlOption = None,
    verbose: VerboseOption = False,
    as_json: JsonOption = False,
) -> int:
    """Compare two traces by tensor name and position; name the first tensor that differs and how."""
    words = ["gnomon", "compare", str(expected), str(observed)]
    words += ["--map", mapping] if mapping else []
    words += ["--digests"] if digests else []
    report = compare(expected, observed, mapping, digests, shlex.join(words))
    return show(report, as_json, html, verbose)


def compare(expected: Path, observed: Path, mapping: str | None, digests: bool, again: str) -> Report:
    """A side with a manifest is a trace; anything else is a dump."""
    names = read_map(mapping) if mapping else None
    if not is_trace(expected):
        if is_trace(observed):
            raise UsageError(f"Expected the trace first and then the dump {str(expected)!r}; exchange the two")
        if not is_dump(expected):
            Trace(expected)  # says what is missing
        if mapping or digests:
            raise UsageError(
                "Expected neither --map nor --digests beside two dumps: their names and bytes are compared"
            )
        return compare_dumps(expected, observed, again)
    if is_trace(observed):
        first = Trace(expected, with_bytes=not digests)
        other = Trace(observed, with_bytes=not digests, like=first)
        return compare_traces(first, other, names=names, digests=digests, command=again)
    if digests:
        raise UsageError(f"Expected two traces for --digests but {str(observed)!r} is none")
    trace = Trace(expected)
    return compare_dump(trace, Dump(observed, trace, names), {"dump": observed.name}, command=again)


def is_trace(path: Path) -> bool:
    return any(os.path.exists(path / name) for name in ("manifest.json", "tensors.jsonl"))


def is_dump(path: Path) -> bool:
    """Whether it holds files that dumps are made of, somewhere below."""
    return any(file.suffix in READERS for file in files_of(path))
