"""Altering values between the operations of a model: what an interpreter can be given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from nnhal.arrays import Array

if TYPE_CHECKING:
    from onnx import NodeProto


class Alteration(Protocol):
    """What the results of operations are replaced by, before others compute with them."""

    def results(self, subgraph: int, operation: int, results: Sequence[Array]) -> tuple[Array, ...]:
        """Return what takes the place of the results of an operation. Subgraph 0 is main."""
        ...

    def node_results(self, subgraph: int, operation: int, node: NodeProto, results: Sequence[Any]) -> tuple[Any, ...]:
        """Return what takes the place of the results of a node in the graph of an operation of nnhal.onnx.

        They are arrays, or what else ONNX has: lists, dictionaries and None. Nodes within nodes are not told.
        """
        ...
