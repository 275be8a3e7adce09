"""Run cases; the package says which. Exit 0: every case passed."""

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from fuzz.kinds import KINDS
from fuzz.runner import Found, Fuzzer
from fuzz.seeds import build


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m fuzz")
    parser.add_argument("--cases", default="0:20000", help="first:end")
    parser.add_argument("--case", type=int, help="one case, with what it printed and its files kept")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kind", choices=list(KINDS), help="only cases of this kind")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument("--findings", type=int, default=20, help="to print in full")
    asked = parser.parse_args()
    first, last = (asked.case, asked.case + 1) if asked.case is not None else map(int, asked.cases.split(":"))
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="fuzz-") as name:
        folder = Path(name)
        (folder / "work").mkdir()
        seeds = built(folder / "seeds")
        fuzzer = Fuzzer(asked.seed, seeds, folder / "work", only=asked.kind)

        def told(done: int, found: Found) -> None:
            rate = done / (time.monotonic() - began)
            end = "\r" if sys.stderr.isatty() else "\n"
            if sys.stderr.isatty() or done % 1000 < 50 or done == last - first:
                print(
                    f"{done:,} of {last - first:,} cases, {rate:.0f} a second, {len(found.findings)} findings",
                    end=end,
                    file=sys.stderr,
                    flush=True,
                )

        found = fuzzer.run(range(first, last), asked.jobs, told)
    say(found, asked)
    return int(bool(found.findings))


def built(folder: Path) -> Path:
    """Sound files, made by another process: engines leave threads behind, which no fork has."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            build(folder)
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(pid, 0)[1] == 0, "the sound files could not be made"
    return folder


def say(found: Found, asked: argparse.Namespace) -> None:
    only = f" --kind {asked.kind}" if asked.kind else ""
    for at, one in enumerate(found.findings):
        print(
            f"case {one.number}, {one.kind}: {one.what}\n    gnomon {one.words}\n    again: python -m fuzz --seed {asked.seed}{only} --case {one.number}"
        )
        if at < asked.findings:
            print("    " + "\n    ".join(line[:300] for line in one.detail.splitlines()[-25:]))
    print(", ".join(f"{name}: {count}" for name, count in sorted(found.codes.items())))
    print(
        f"slowest {found.slowest[0]:.1f} s (case {found.slowest[1]}), largest {found.largest[0] >> 20} MiB (case {found.largest[1]})"
    )
    print(f"{found.codes.total() + len(found.findings):,} cases, {len(found.findings)} findings")


if __name__ == "__main__":
    sys.exit(main())
