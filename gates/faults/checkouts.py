"""Broken checkouts: the files as they are, with one added, changed or gone."""

from dataclasses import replace

from gnomon.gates.gate import Fault, Files, Subject


def with_files(subject: Subject, files: Files) -> Subject:
    return replace(subject, checkout=lambda: files)


def adds(path: str, data: bytes) -> Fault:
    """One file more."""
    return lambda subject: with_files(subject, {**(subject.checkout() or {}), path: data})


def imports(path: str, line: str) -> Fault:
    """One module more, with one import."""
    return adds(path, line.encode() + b"\n")


def removes(folder: str) -> Fault:
    """A folder less."""

    def apply(subject: Subject) -> Subject:
        files = subject.checkout() or {}
        return with_files(subject, {path: data for path, data in files.items() if not path.startswith(folder)})

    return apply


def names_the_host(subject: Subject) -> Subject:
    """A file that holds what is, here, the name of the machine."""
    named = replace(subject, private=(*subject.private, "the-name-of-a-host"))
    return adds("docs/extra.md", b"measured on THE-NAME-OF-" + b"A-HOST, twice")(named)
