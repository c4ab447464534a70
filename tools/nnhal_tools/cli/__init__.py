"""The ``nnhal`` command."""

from __future__ import annotations

from nnhal_hosting.extras import require_extra

__all__ = ["main"]


def main() -> None:
    """Run the command."""
    require_extra("tools", "nnhal")
    from nnhal_tools.cli import app

    app.main()
