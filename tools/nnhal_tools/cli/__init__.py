"""The ``nnhal`` command."""

from __future__ import annotations

import sys

from nnhal_hosting.extras import MissingExtraError, extra

__all__ = ["main"]


def main() -> None:
    """Run the command. The status is 1 if packages that it needs are not installed."""
    try:
        with extra("tools"):
            from nnhal_tools.cli import app
    except MissingExtraError as error:
        sys.exit(f"nnhal: {error}")
    app.main()
