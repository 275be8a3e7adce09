"""How objects show themselves where their name is typed: a few lines of text, and the same as HTML in a notebook."""

from html import escape


def lines(head: str, fields: dict[str, str]) -> str:
    """A heading and a line for each field that is not empty."""
    shown = [(name, value) for name, value in fields.items() if value]
    width = max((len(name) for name, _ in shown), default=0)
    return "\n".join([head, *(f"  {name:{width}}  {value}" for name, value in shown)])


def table(head: str, fields: dict[str, str]) -> str:
    """The same as HTML; every text is escaped."""
    rows = "".join(
        f"<tr><th style='text-align:left'>{escape(name)}</th><td style='text-align:left'>{escape(value)}</td></tr>"
        for name, value in fields.items()
        if value
    )
    return f"<div><b>{escape(head)}</b><table>{rows}</table></div>"


def preformatted(text: str, good: bool) -> str:
    """A text as HTML, escaped, its first line coloured by the verdict."""
    first, _, rest = text.partition("\n")
    colour = "#1a7f37" if good else "#cf222e"
    return f"<pre><b style='color:{colour}'>{escape(first)}</b>\n{escape(rest)}</pre>"


def listed(ids: list[int], most: int = 8) -> str:
    """The first ids, and how many there are in all where some are left out."""
    few = ", ".join(map(str, ids[:most]))
    return few if len(ids) <= most else f"{few}, ... ({len(ids)} in all)"
