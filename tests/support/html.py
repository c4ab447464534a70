"""Reading HTML that a test has got."""

from __future__ import annotations

from dataclasses import dataclass
from html.parser import HTMLParser

_VOID = {"br", "hr", "img", "input", "link", "meta"}
"""Elements without an end."""


@dataclass
class Element:
    """An element, with the text in it and in what it contains."""

    tag: str
    attributes: dict[str, str]
    text: str = ""


class Page(HTMLParser):
    """The elements of a page, each of which must end where it began."""

    def __init__(self) -> None:
        super().__init__()
        self.elements: list[Element] = []
        self.text = ""
        self._open: list[Element] = []

    @property
    def counts(self) -> dict[str, int]:
        tags = [element.tag for element in self.elements]
        return {tag: tags.count(tag) for tag in tags}

    def all(self, tag: str) -> list[Element]:
        return [element for element in self.elements if element.tag == tag]

    def having(self, name: str) -> list[Element]:
        return [element for element in self.elements if name in element.attributes.get("class", "").split()]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, {name: value or "" for name, value in attrs})
        self.elements.append(element)
        if tag not in _VOID:
            self._open.append(element)

    def handle_endtag(self, tag: str) -> None:
        """Close the element that was opened last."""
        assert self._open.pop().tag == tag

    def handle_data(self, data: str) -> None:
        """Add text to every open element."""
        self.text += data
        for element in self._open:
            element.text += data

    def end(self) -> None:
        """Read the rest. Raises AssertionError if an element has no end."""
        self.close()
        assert not self._open, [element.tag for element in self._open]


def parsed(text: str) -> Page:
    page = Page()
    page.feed(text)
    page.end()
    return page
