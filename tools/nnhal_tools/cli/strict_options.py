"""Commands that answer an unknown option with all that they know."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand


class StrictCommand(TyperCommand):
    """A command whose error of an unknown option lists the known ones."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the command line."""
        try:
            return super().parse_args(ctx, args)
        except Exception as error:  # click's class, of which typer has a private copy
            if hasattr(error, "option_name") and hasattr(error, "possibilities"):
                error.possibilities = [
                    name for parameter in self.params for name in parameter.opts if name.startswith("-")
                ]
            raise
