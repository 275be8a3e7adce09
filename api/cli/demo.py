"""`gnomon demo`: the main job on an embedded model, then the same job on a shadow that was broken on purpose."""

from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import Progress

from gnomon.cli.show import HtmlOption
from gnomon.compare.diff import diff
from gnomon.compare.report import Report
from gnomon.engines import engine as make_engine
from gnomon.loading import load
from gnomon.planted import middle_sum, reordered
from gnomon.reference.engine import Engine

PROMPT = "def __init__(self"


def command(
    steps: Annotated[int, typer.Option("--steps", min=1, help="tokens after the prompt")] = 16, html: HtmlOption = None
) -> int:
    """Reference against shadow on an embedded model, every tensor of every step; then a planted divergence."""
    console = Console(highlight=False)
    model = load("tiny-dense")
    assert model.tokenizer is not None  # it is part of the embedded model
    ids = model.tokenizer.encode(PROMPT)
    reference, fast = make_engine("numpy", model), make_engine("mlx", model)

    console.rule(f"1. {model.name}: the {reference.name} reference defines the bytes, {fast.name} must cast them")
    honest = compared(console, reference, fast, ids, steps)
    tokens = list(reference.generate(ids, steps))
    console.print(f"text: [bold]{PROMPT}[/][cyan]{model.tokenizer.decode(tokens)}[/]\n", highlight=False)

    at = middle_sum(model)
    console.rule(f"2. A copy of {fast.name} in which {at} adds its terms from the last to the first")
    broken = compared(console, reference, reordered(model), ids, steps)
    if html is not None:
        broken.write_html(html)
        console.print(f"report: {html}", markup=False, soft_wrap=True)
    card = broken.first_divergence
    found = card is not None and card.tap == at
    same_tokens = not any(record.type == "token" for record in broken.records)
    if found:
        console.print(
            f"The same numbers in another order: every product of [bold]{at}[/] is right, each addition is rounded "
            "elsewhere, and everything after it inherits the difference. "
            + (f"The {steps} tokens are still the same: ids alone would have certified it." if same_tokens else "")
        )
    else:
        console.print(f"[red]The planted break at {at} was not found.[/]")
    return 0 if honest.exit_code == 0 and found else 1


def compared(console: Console, expected: Engine[Any], observed: Engine[Any], ids: list[int], steps: int) -> Report:
    with Progress(console=console, transient=True) as bar:
        task = bar.add_task(f"{expected.name} | {observed.name}", total=None)
        report = diff(expected, observed, ids, steps=steps,
                      progress=lambda done, total: bar.update(task, completed=done, total=total))  # fmt: skip
    report.render(console)
    return report
