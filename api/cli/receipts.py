"""`gnomon receipts`: whether the lines of a receipt are those that were written, and where two of them differ."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from gnomon.cli.options import JsonOption, present
from gnomon.gates.receipt_compare import differences
from gnomon.reference import chain
from gnomon.reference.chain import ChainError, Record, verify
from gnomon.reference.errors import ModelError, UsageError
from gnomon.reference.strict_json import parse_object, show

LIMIT = 64 << 20  # bytes of a receipt; that of the kill matrix has one or two


def group() -> None:
    """Receipts of gates."""


def verify_file(
    file: Annotated[Path, typer.Argument(callback=present("a receipt"), help="a receipt")],
    public_key: Annotated[
        str | None, typer.Option("--public-key", help="64 hex digits: it must be signed by it")
    ] = None,
    as_json: JsonOption = False,
) -> int:
    """Check every line. Exit 0: nothing was edited, removed, added or reordered; 1: something was;
    2: unreadable, cut, or no receipt."""
    key = None if public_key is None else read_public_key(public_key)
    lines = read_receipt(file)
    try:
        records = verify(lines, key)
    except ChainError as error:
        if as_json:
            valid = False if error.exit_code == 1 else None
            print(json.dumps({"valid": valid, "line": error.index, "detail": str(error)}))
            return error.exit_code
        raise
    signer = json.loads(lines[-1]).get("public_key", "")
    summary = next((r for r in reversed(records) if r.get("type") == "summary"), {})
    found = {
        "valid": True,
        "records": len(records),
        "verdict": summary.get("verdict"),
        "signed_by": signer,
        "signature_checked": key is not None,
        "other_headers": other_headers(records),
    }
    if as_json:
        print(json.dumps(found))
    else:
        say(found)
    return 0


def compare_files(
    first: Annotated[Path, typer.Argument(callback=present("a receipt"), help="a receipt")],
    second: Annotated[
        Path, typer.Argument(callback=present("a receipt"), help="the receipt of another run or machine")
    ],
    as_json: JsonOption = False,
) -> int:
    """Which fields of two receipts differ. Exit 0: every result is the same; 1: a result differs, or one was edited;
    3: the gates ran a model of other weights or of another config, or one has results that the other lacks and what
    both have is the same."""
    found = differences(*(verify(read_receipt(file)) for file in (first, second)))
    wrong, alone = any(d.result for d in found), [d for d in found if d.alone]
    others = [d for d in found if d.other_model]
    code = 3 if others else 1 if wrong else 3 if alone else 0
    if as_json:
        told = {"results_equal": not wrong, "in_one_only": len(alone), "exit_code": code}
        print(json.dumps({**told, "differences": [asdict(d) for d in found]}))
        return code
    for d in found:
        mark = "RESULT " if d.result else "ALONE  " if d.alone else "       "
        print(f"{mark}{d.record}: {d.field}: {shown(d.first)} | {shown(d.second)}")
    if others:
        print(f"incomparable: {others[0].record} has {others[0].field} {shown(others[0].first)} in the first receipt "
              f"and {shown(others[0].second)} in the second")  # fmt: skip
        return code
    rest = f"; {len(alone)} records are in one of them only and were not compared" if alone else ""
    both = "of what both have, every result is the same" if alone else "every result is the same"
    print(f"{'results differ' if wrong else f'{both}; {len(found) - len(alone)} circumstances differ'}{rest}")
    return code


def shown(value: Any) -> str:
    """A value as short as it can stay and still be told apart."""
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def read_receipt(file: Path) -> list[str]:
    """The lines of a receipt, not checked but for the first. Raises UsageError for what is none."""
    lines = chain.read_lines(file, "a receipt")
    try:
        first = next(lines, "")
        kind = parse_object(first.encode("utf-8", "replace"), "it").get("type")
    except (ModelError, chain.UnreadableError) as error:
        raise UsageError(
            f"Expected a receipt, as `gnomon gate --receipt` writes it, but {show(file.name)} is none: {error}"
        ) from error
    if kind != "run":
        raise UsageError(
            f"Expected a receipt but {show(file.name)} is a chain of other records; see `transcript verify`, "
            "`ledger verify`"
        )
    out, size = [first], 0
    for line in lines:
        size += len(line)
        if size > LIMIT:
            raise UsageError(f"Expected a receipt of at most {LIMIT} bytes but {show(file.name)} has more")
        out.append(line)
    return out


def other_headers(records: list[Record]) -> list[str]:
    """Gates and mutations of the receipt whose question was not the one this version asks."""
    from gnomon.gates.all import GATES  # no other verb waits for them
    from gnomon.gates.mutations.all import MUTATIONS

    frozen = {name: gate.header.digest for name, gate in GATES.items()}
    frozen |= {f"matrix {name}": mutation.digest for name, mutation in MUTATIONS.items()} | {"matrix": ""}
    asked: dict[str, Any] = {}
    for r in records:
        if r.get("type") == "gate":
            name = str(r.get("gate")).partition(" / ")[0]
            asked[f"matrix {r['fault']}" if name == "matrix" and "fault" in r else name] = r.get("header_sha256")
    return [name for name, digest in asked.items() if frozen.get(name) != digest]


def say(found: Record) -> None:
    print(f"{found['records']} records, unchanged; verdict {found['verdict']}")
    if found["signature_checked"]:
        print(f"signed by {found['signed_by']}")
    elif found["signed_by"]:
        print(f"names {found['signed_by']} as its signer; give --public-key to check the signature")
    else:
        print("not signed: one who rewrites all of it is not seen")
    if found["other_headers"]:
        print(f"asked otherwise by this version: {', '.join(found['other_headers'])}")


def read_public_key(text: str) -> bytes:
    """32 bytes from 64 hexadecimal digits. Raises UsageError."""
    try:
        key = bytes.fromhex(text)
    except ValueError:
        key = b""
    if len(key) != 32:
        raise UsageError(f"Expected a public key of 64 hexadecimal digits but got {text!r:.80}")
    return key
