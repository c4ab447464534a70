"""The error of files that describe a subgraph."""

from __future__ import annotations

from nnhal_mlip.flow.graph.errors import FlowError


class FlowFilesError(FlowError):
    """A subgraph that files cannot hold, or files that hold none: what was got, what was expected and where."""
