"""The command line: one file per verb. The exit code is the verdict.

0 identical or passed, 1 differs or failed, 2 usage, unreadable input or a failure of the user's own code,
3 incomparable or required and not run, 4 the tool itself failed.
"""

import errno
import functools
import io
import os
import signal
import sys
import traceback
from collections.abc import Callable
from importlib.metadata import version
from typing import Annotated

import typer
from rich.console import Console

from gnomon.cli import (
    bench,
    bisect,
    check_op,
    compare,
    demo,
    diff,
    digest,
    explain,
    gate,
    inspect,
    probe,
    receipts,
    run,
    selftest,
    serve,
    state,
    trace,
    transcript,
)
from gnomon.cli.prompt_file import with_files
from gnomon.reference.errors import GnomonError
from gnomon.reference.own_code import OwnCodeError, failed, named, own_frame
from gnomon.reference.strict_json import show

FULL = (errno.ENOSPC, errno.EFBIG, errno.EDQUOT)
UNUSABLE = (  # what a path may do to the one who names it
    errno.ENAMETOOLONG, errno.EACCES, errno.EPERM, errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.EROFS,
    errno.ENXIO, errno.ESPIPE, errno.ENODEV, errno.EEXIST,
)  # fmt: skip
CLOSED = 141  # the reader left before there was a verdict: what a shell says of a process that SIGPIPE ended


def exiting(command: Callable[..., int]) -> Callable[..., None]:
    """A verb returns its exit code; Typer wants it raised."""

    command = with_files(command)

    @functools.wraps(command)
    def wrapped(*args: object, **kwargs: object) -> None:
        verb_begins()
        try:
            code = command(*args, **kwargs)
        except BrokenPipeError:
            leave_quietly()
            code = CLOSED
        try:
            sys.stdout.flush()
        except BrokenPipeError:
            leave_quietly()
        raise typer.Exit(code)

    return wrapped


def verb_begins() -> None:
    """From here on a closed pipe and Ctrl-C are exceptions: a verb may have something to clear away."""
    if signal.getsignal(signal.SIGPIPE) == signal.SIG_DFL:
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    if signal.getsignal(signal.SIGINT) == signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def say_version(asked: bool) -> None:
    """Print the version of this installation and leave."""
    if asked:
        print(f"gnomon {version('gnomon')}")
        raise typer.Exit


def group(
    version: Annotated[
        bool, typer.Option("--version", callback=say_version, is_eager=True, help="show the version and exit")
    ] = False,
) -> None:
    """A NumPy reference defines the bytes of a transformer; shadow engines must cast exactly those bytes."""


app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.callback()(group)
app.command("demo")(exiting(demo.command))
app.command("run")(exiting(run.command))
app.command("digest")(exiting(digest.command))
app.command("diff")(exiting(diff.command))
app.command("bisect")(exiting(bisect.command))
app.command("check-op")(exiting(check_op.command))
app.command("explain")(exiting(explain.command))
app.command("selftest")(exiting(selftest.command))
app.command("probe")(exiting(probe.command))
app.command("bench")(exiting(bench.command))
app.command("trace")(exiting(trace.command))
app.command("compare")(exiting(compare.command))

app.command("gate")(exiting(gate.command))

evidence = typer.Typer(help="Check receipts of gates, and hold two against each other.", no_args_is_help=True)
evidence.command("verify")(exiting(receipts.verify_file))
evidence.command("compare")(exiting(receipts.compare_files))
evidence.callback()(receipts.group)
app.add_typer(evidence, name="receipts")

writing = typer.Typer(help="Make and verify transcripts.", no_args_is_help=True)
writing.command("produce")(exiting(transcript.produce_file))
writing.command("verify")(exiting(transcript.verify_file))
writing.callback()(transcript.group)
app.add_typer(writing, name="transcript")

look = typer.Typer(help="Show what a file holds.", no_args_is_help=True)
look.command("model")(exiting(inspect.model))
look.command("trace")(exiting(inspect.trace))
look.command("tensor")(exiting(inspect.tensor))
look.command("state")(exiting(inspect.state))
look.callback()(inspect.group)
app.add_typer(look, name="inspect")

states = typer.Typer(help="Write, restore, compare and corrupt state files.", no_args_is_help=True)
states.command("export")(exiting(state.export_state))
states.command("import")(exiting(state.import_state))
states.command("diff")(exiting(state.diff))
states.command("swap")(exiting(state.swap))
states.callback()(state.group)
app.add_typer(states, name="state")

app.command("serve")(exiting(serve.command))
books = typer.Typer(help="Verify the ledger of a node.", no_args_is_help=True)
books.command("verify")(exiting(serve.verify_ledger))
books.callback()(serve.ledger_group)
app.add_typer(books, name="ledger")


def main() -> None:
    """Entry point of the `gnomon` command."""
    if not os.environ.get("COLUMNS", "1").strip("0"):  # no column at all would hold no word
        del os.environ["COLUMNS"]
    streams_open()
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # until a verb begins: `gnomon --help | head -1` is no failure
    try:
        app()
        sys.stdout.flush()
    except GnomonError as error:
        fail(str(error), error.exit_code)
    except BrokenPipeError:
        leave_quietly()
        sys.exit(CLOSED)
    except KeyboardInterrupt:
        sys.exit(130)
    except (Exception, SystemExit) as error:
        if named and own_frame(error):
            fail(str(failed("your code", error)), OwnCodeError.exit_code)
        if isinstance(error, SystemExit):
            raise
        if isinstance(error, OSError) and error.errno in FULL:
            leave_quietly()
            fail(f"Expected room for the output but got: {error.strerror}", 2)
        if isinstance(error, OSError) and error.errno in UNUSABLE and error.filename is not None:
            fail(f"Expected to use {show(os.fsdecode(error.filename))} but got: {error.strerror}", 2)
        traceback.print_exc()  # nothing is swallowed, and the exit code says whose fault it is
        fail("gnomon itself failed; the lines above belong in a bug report", 4)


def streams_open() -> None:
    """A closed stdin, stdout or stderr becomes the null device: no file that is opened later may take its number. What
    cannot be encoded (half of a surrogate pair in the name of a file) is spelled out."""
    while (free := os.open(os.devnull, os.O_RDWR)) < 3:
        os.set_inheritable(free, True)
    os.close(free)
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8", closefd=False))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def leave_quietly() -> None:
    """The reader of stdout has gone: what is still to be written has nobody to read it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def fail(sentence: str, code: int) -> None:
    """Print one sentence to stderr and leave."""
    Console(stderr=True, emoji=False, highlight=False).print(
        "gnomon:", sentence, style="red", markup=False, soft_wrap=True
    )
    sys.exit(code)
