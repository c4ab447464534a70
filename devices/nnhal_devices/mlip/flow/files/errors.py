"""The error of files that describe a subgraph."""

from __future__ import annotations

from nnhal.errors import NnhalError


class FlowFilesError(NnhalError):
    """A subgraph cannot be described, or files do not describe one: what was got, what was expected and where."""
