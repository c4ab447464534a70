"""The style sheet of everything that is told and drawn here, for a site that shows all of it."""

from __future__ import annotations

from functools import cache

from nnhal_pages.comparison import comparison_style
from nnhal_pages.explanation.fragment import style
from nnhal_pages.svg import drawing_style


@cache
def whole_style() -> str:
    """Return the rules of pages, explanations, comparisons, and pictures of all kinds. None loads anything."""
    return style() + comparison_style() + drawing_style()
