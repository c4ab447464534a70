"""A page as one HTML document, and the parts and style sheets that pages share."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from nnhal_pages.text import escaped

_DOCUMENT_STYLE = """\
body { margin: 0; }
main { max-width: 80rem; margin: 0 auto; padding: 1.5rem 1rem 4rem; }
h1 { margin: 0 0 1rem; font: 700 clamp(1.25rem, 4vw, 1.75rem)/1.2 var(--lettering); overflow-wrap: anywhere; }
"""


def document(title: str, content: str, sheet: str) -> str:
    """Return a whole HTML document. ``content`` is HTML, ``sheet`` its style, ``title`` plain text."""
    return (
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"<title>{escaped(title)}</title><style>{_DOCUMENT_STYLE}{sheet}</style></head>"
        f"<body class='nnhal-plan'><main><h1>{escaped(title)}</h1>{content}</main></body></html>"
    )


class Figure(NamedTuple):
    """One of the sums at the top of a page."""

    title: str
    figure: str
    more: str
    """What it consists of, or where it comes from."""


def figure_list(figures: Iterable[tuple[str, str, str]], lesser: Iterable[tuple[str, str, str]] = ()) -> str:
    """Return figures as cards: of each the title, the figure, and more about it, all plain text.

    ``lesser`` ones follow below the others, in smaller letters.
    """
    cards = (
        f"<div{kind}><dt>{escaped(title)}</dt><dd class='figure'>{escaped(figure)}</dd>"
        f"<dd class='small'>{escaped(more)}</dd></div>"
        for kind, some in (("", figures), (" class='lesser'", lesser))
        for title, figure, more in some
    )
    return f"<dl class='sums'>{''.join(cards)}</dl>"


def scrolling(name: str, content: str, identifier: str = "") -> str:
    """Return HTML that may be wider than the page, in a region with a name that the keyboard reaches and scrolls."""
    id_ = f" id='{identifier}'" if identifier else ""
    return f"<div class='scroll'{id_} role='region' aria-label='{escaped(name)}' tabindex='0'>{content}</div>"


@cache
def palette() -> str:
    """Return the colours, for the light and the dark scheme of the system."""
    return files("nnhal_pages").joinpath("palette.css").read_text()


@cache
def style() -> str:
    """Return the style sheet of what pages have in common, with the colours. All rules are below ``.nnhal-plan``."""
    return palette() + files("nnhal_pages").joinpath("page.css").read_text()
