"""`gnomon demo`: the main job on the embedded models, then the same job on a shadow that was broken on purpose."""

from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import Progress

from gnomon.cli.loaded import engine as make_engine
from gnomon.cli.loaded import load
from gnomon.cli.show import HtmlOption, Output, VerboseOption
from gnomon.compare.diff import diff
from gnomon.compare.explain.tap import explain_divergence
from gnomon.compare.report import Report
from gnomon.planted import middle_sum, reordered
from gnomon.reference.engine import Engine
from gnomon.reference.model import Model

MODELS = {"tiny-dense": "def __init__(self", "tiny-hybrid": "import os\nimport "}


def command(
    steps: Annotated[int, typer.Option("--steps", min=1, help="tokens after the prompt")] = 16,
    html: HtmlOption = None,
    verbose: VerboseOption = False,
) -> int:
    """Reference against shadow on the embedded models, every tensor of every step; then a planted divergence."""
    console = Output()
    passed = True
    for number, (name, prompt) in enumerate(MODELS.items(), start=1):
        model, ids = opened(name, prompt)
        reference, shadow = make_engine("numpy", model), make_engine("shadow", model)
        console.rule(
            f"{number}. {name}: {reference.name} defines the bytes, {shadow.name} must cast them", align="left"
        )
        report = compared(console, reference, shadow, ids, steps)
        passed &= report.exit_code == 0
        report.render(console, verbose=verbose)
        assert model.tokenizer is not None
        text = model.tokenizer.decode(list(reference.generate(ids, 2 * steps)))
        console.print(f"[dim]text:[/] {prompt}[cyan]{text}[/]\n")

    model, ids = opened(*next(iter(MODELS.items())))
    at = middle_sum(model)
    console.rule(f"{len(MODELS) + 1}. a copy of the shadow in which {at} adds backwards", align="left")
    broken = reordered(model)
    report = compared(console, make_engine("numpy", model), broken, ids, steps)
    report.render(console, table=False, verbose=verbose)
    if html is not None:
        report.write_html(html)
        console.print(f"report: {html}", markup=False, soft_wrap=True)
    card = report.first_divergence
    if card is None or card.tap != at:
        console.print(f"[red]The planted break at {at} was not found.[/]")
        return 1
    console.print(explain_divergence(card, broken, [ids]).text().rstrip(), markup=False, soft_wrap=True)
    same = not any(record.type == "token" for record in report.records)
    console.print(
        "\nThe same numbers in another order: every product is right, each addition is rounded elsewhere, and all that "
        "follows inherits the difference."
        + (f" The {steps} tokens are still the same: ids alone would have certified it." if same else "")
    )
    return 0 if passed else 1


def opened(name: str, prompt: str) -> tuple[Model, list[int]]:
    """An embedded model, and the prompt as its ids."""
    model = load(name)
    assert model.tokenizer is not None  # it is part of an embedded model
    return model, model.tokenizer.encode(prompt)


def compared(console: Console, expected: Engine[Any], observed: Engine[Any], ids: list[int], steps: int) -> Report:
    """The report of a diff, with a progress bar while it runs."""
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(f"{expected.name} | {observed.name}", total=None)

        def progress(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)

        return diff(expected, observed, ids, steps, progress)
