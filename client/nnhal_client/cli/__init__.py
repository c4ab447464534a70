"""The ``nnhal`` command."""

from nnhal_client.cli.app import main

__all__ = ["main"]
