"""A page as a test reads it, and a name that would break out of one."""

import re
from html.parser import HTMLParser

HOSTILE = "</style><script>alert('1')</script><img src=x>&{{ 7 * 7 }}"
VOID = {"meta", "link", "br", "wbr", "col", "img", "hr", "input"}


class Page(HTMLParser):
    """tags: every start tag with its attributes; text: all that is shown, titles of pictures among it"""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text = ""
        self.style = ""
        self.feed(source)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] == ["style"]:
            self.style += data
        else:
            self.text += data

    @property
    def words(self) -> str:
        return re.sub(r"\s+", " ", self.text)
