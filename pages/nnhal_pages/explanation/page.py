"""An explanation as one HTML page: no script, and nothing that is loaded from elsewhere."""

from __future__ import annotations

from nnhal_client.explanation import Explanation
from nnhal_pages.document import document
from nnhal_pages.explanation.fragment import fragment, style
from nnhal_pages.svg import drawing_style


def page(explanation: Explanation, title: str) -> str:
    """A whole HTML document, to keep or to attach: it needs no other file."""
    return document(title, fragment(explanation), style() + drawing_style())
