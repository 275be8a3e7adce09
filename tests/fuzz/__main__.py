"""Run cases; the package says which. Exit 0: every case passed."""

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from fuzz.kinds import KINDS, made
from fuzz.runner import Found, Fuzzer
from fuzz.seeds import build


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m fuzz")
    parser.add_argument("--cases", default="0:20000", help="first:end")
    parser.add_argument("--case", type=int, help="one case, whose files stay")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kind", choices=list(KINDS), help="only cases of this kind")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument("--findings", type=int, default=20, help="to print in full")
    asked = parser.parse_args()
    if asked.case is None:
        first, last = map(int, asked.cases.split(":"))
        with tempfile.TemporaryDirectory(prefix="fuzz-") as name:
            found = fuzz(asked, Path(name), range(first, last))
    else:
        folder = Path(tempfile.mkdtemp(prefix="fuzz-"))
        found = fuzz(asked, folder, range(asked.case, asked.case + 1))
        (folder / "case").mkdir()
        case = made(asked.seed, asked.case, folder / "seeds", folder / "case", asked.kind)
        print(f"files: {folder / 'case'}\nwords: {case.words}")
    say(found, asked)
    return int(bool(found.findings))


def fuzz(asked: argparse.Namespace, folder: Path, numbers: range) -> Found:
    """Cases, with a line of progress on stderr."""
    (folder / "work").mkdir()
    fuzzer = Fuzzer(asked.seed, built(folder / "seeds"), folder / "work", only=asked.kind)
    began, shown = time.monotonic(), 0
    live = sys.stderr.isatty()

    def told(done: int, found: Found) -> None:
        nonlocal shown
        if live or done - shown >= 1000 or done == len(numbers):
            shown = done
            rate = f"{done / (time.monotonic() - began):.0f} a second"
            line = f"{done:,} of {len(numbers):,} cases, {rate}, {len(found.findings)} findings"
            print(line, end="\n" if not live or done == len(numbers) else "\r", file=sys.stderr, flush=True)

    return fuzzer.run(numbers, asked.jobs, told)


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
    again = f"python -m fuzz --seed {asked.seed}" + (f" --kind {asked.kind}" if asked.kind else "")
    for at, one in enumerate(found.findings):
        print(f"case {one.number}, {one.kind}: {one.what}\n    gnomon {one.words}\n    {again} --case {one.number}")
        if at < asked.findings:
            print("    " + "\n    ".join(line[:300] for line in one.detail.splitlines()[-25:]))
    print(", ".join(f"{name}: {count}" for name, count in sorted(found.codes.items())))
    (seconds, slow), (peak, large) = found.slowest, found.largest
    print(f"slowest {seconds:.1f} s (case {slow}), largest {peak >> 20} MiB (case {large})")
    print(f"{found.codes.total() + len(found.findings):,} cases, {len(found.findings)} findings")


if __name__ == "__main__":
    sys.exit(main())
