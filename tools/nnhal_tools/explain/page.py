"""An explanation as one HTML page: no script, and nothing that is loaded from elsewhere."""

from __future__ import annotations

from nnhal_client.explanation import Explanation
from nnhal_tools.explain.fragment import fragment, style
from nnhal_tools.pages import document


def page(explanation: Explanation, title: str) -> str:
    """A whole HTML document."""
    return document(title, fragment(explanation), style())
