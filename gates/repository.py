"""The checkout: imports flow one way, the README lists what is there, and nobody's name or path leaks."""

import ast
from collections.abc import Iterator

from gnomon.gates.faults import checkouts as broken
from gnomon.gates.gate import Files, Gate, Header, Outcome, Subject, VoidError
from gnomon.gates.leaks import traces_of

# Folder -> the folders it may import. bench is not installed: like a user's program, it stands on the public API.
LOWER = ["reference", "models", "decode", "gpu", "compare", "serve"]
MAY_IMPORT = {
    "reference": [],
    "models": ["reference"],
    "decode": ["reference"],
    "gpu": ["reference"],
    "compare": ["reference"],
    "serve": ["reference", "models", "decode", "gpu", "compare"],
    "gates": LOWER,
    "api": [*LOWER, "gates"],
    "bench": [*LOWER, "gates", "api"],
}
HEADER = Header(
    name="repository",
    question="Do imports flow one way, does the README list what is there, and does no file name a user, host or home?",
    instrument="the syntax tree of every module; the fenced block under '## Layout' of README.md against the files; "
    "names of this machine and its user, and paths below a home folder, searched in the bytes of every file",
    threshold="no import outside the table, no file without an entry above it, no entry without a file, no leak",
    disproof="an import made at run time by a name in a string; a name that this machine does not know",
    void="a checkout without modules or without README.md",
    numbers={"may_import": MAY_IMPORT},
)


def run(subject: Subject) -> Outcome:
    files = subject.checkout()
    if files is None:
        return Outcome("NOT RUN", "not in a source checkout", required=False)
    modules = {path: data for path, data in files.items() if path.endswith(".py") and path.split("/")[0] in MAY_IMPORT}
    if not modules or "README.md" not in files:
        raise VoidError("the checkout holds no modules or no README.md")
    problems = [*wrong_imports(modules), *wrong_layout(files), *leaks(files, subject.private)]
    figures = {"files": len(files), "modules": len(modules), "names": len(subject.private)}
    if problems:
        more = f" ({len(problems)} in all)" if len(problems) > 1 else ""
        return Outcome("FAIL", problems[0] + more, {**figures, "problems": len(problems)})
    return Outcome("PASS", "", figures)


def wrong_imports(modules: Files) -> Iterator[str]:
    """Imports that the table does not allow."""
    for path, data in modules.items():
        folder = path.split("/")[0]
        try:
            tree = ast.parse(data)
        except SyntaxError as error:
            yield f"{path}:{error.lineno} is no Python: {error.msg}"
            continue
        for line, name in imported(tree):
            target = folder_of(name)
            if target not in (None, folder) and target not in MAY_IMPORT[folder]:
                yield f"{path}:{line} imports {name}, and {folder} may not import {target}"


def imported(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Absolute names of everything that is imported, wherever it stands."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                yield node.lineno, f"{'.' * node.level}{node.module or ''}.{alias.name}"


def folder_of(name: str) -> str | None:
    """The folder that a module comes from: gnomon.compare.diff from compare, gnomon.engines from api."""
    first, _, rest = name.partition(".")
    if first != "gnomon":
        return None
    second = rest.split(".")[0]
    return second if second in MAY_IMPORT else "api"


def wrong_layout(files: Files) -> Iterator[str]:
    """The README's tree: each line begins with a path from the root; every file stands below one of them."""
    text = files["README.md"].decode("utf-8", "replace")
    _, found, after = text.partition("\n## Layout\n")
    listed = [line.split()[0] for line in after.split("```")[1].splitlines() if line.strip()] if "```" in after else []
    if not found or not listed:
        yield "README.md has no fenced tree under '## Layout'"
        return
    for entry in listed:
        if not any(path == entry or (entry.endswith("/") and path.startswith(entry)) for path in files):
            yield f"README.md lists {entry}, which is not there"
    for path in files:
        top = path.split("/")[0] + "/" * ("/" in path)
        if not path.startswith(".") and not any(path == entry or path.startswith(entry) for entry in listed):
            yield f"README.md does not list {top}, where {path} is"


def leaks(files: Files, private: tuple[str, ...]) -> Iterator[str]:
    """Names and paths that belong to a machine, not to the project."""
    for path, data in files.items():
        for what in traces_of(data, private):
            yield f"{path} holds {what}"


GATE = Gate(
    HEADER,
    run,
    {
        "the reference imports a shadow": (
            broken.imports("reference/extra.py", "from gnomon.gpu import mlx_array"),
            "reference may not import gpu",
        ),
        "compare imports the public API": (
            broken.imports("compare/extra.py", "from gnomon import engines"),
            "compare may not import api",
        ),
        "a gate imports the command line": (
            broken.imports("gates/extra.py", "import gnomon.cli.run"),
            "gates may not import api",
        ),
        "a folder that the README does not list": (broken.adds("unlisted/module.py", b"\n"), "does not list unlisted/"),
        "a folder that is listed and gone": (broken.removes("compare/"), "lists compare/"),
        "a home folder in a text": (
            broken.adds("docs/extra.md", b"see /" + b"home/somebody/model"),
            "docs/extra.md holds /",
        ),
        "a home folder of macOS in data": (
            broken.adds("docs/extra.json", b'{"path": "/' + b'Users/somebody/model"}'),
            "docs/extra.json holds /",
        ),
        "the host of this machine": (broken.names_the_host, "holds the-name-of-a-host"),
    },
    per_engine=False,
)
