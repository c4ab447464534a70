"""An explanation as one HTML page: no script, and nothing that is loaded from elsewhere."""

from __future__ import annotations

from html import escape

from nnhal_client.explanation import Explanation
from nnhal_tools.explain.fragment import fragment, style

_PAGE_STYLE = """\
body { margin: 0; }
main { max-width: 80rem; margin: 0 auto; padding: 1.5rem 1rem 4rem; }
h1 { margin: 0; font-size: clamp(1.25rem, 4vw, 1.75rem); line-height: 1.2; overflow-wrap: anywhere; }
"""


def page(explanation: Explanation, title: str) -> str:
    """A whole HTML document."""
    return (
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"<title>{escape(title)}</title><style>{_PAGE_STYLE}{style()}</style></head>"
        f"<body class='nnhal-plan'><main><h1>{escape(title)}</h1>{fragment(explanation)}</main></body></html>"
    )
