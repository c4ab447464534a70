"""The errors of the flow."""

from __future__ import annotations

from nnhal.errors import NnhalError


class FlowError(NnhalError):
    """A graph that the flow cannot work on. The message says which node, what was got and what was expected."""


class FlowFilesError(FlowError):
    """A subgraph that files cannot hold, or files that hold none: what was got, what was expected and where."""
