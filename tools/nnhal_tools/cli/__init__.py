"""The ``nnhal`` command."""

from nnhal_tools.cli.app import main

__all__ = ["main"]
