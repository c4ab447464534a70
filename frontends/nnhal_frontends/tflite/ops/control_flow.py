"""IF and WHILE."""

from __future__ import annotations

from tflite import IfOptions, WhileOptions

from nnhal.types import OperationType
from nnhal_frontends.tflite.builder import OperatorBuilder


def if_(b: OperatorBuilder) -> None:
    """IF: a condition, then the inputs of both branches."""
    options = b.options(IfOptions)
    condition, *given = b.inputs() or [b.input(0)]
    branches = [b.subgraph(options.ThenSubgraphIndex), b.subgraph(options.ElseSubgraphIndex)]
    b.control_flow(OperationType.IF, [condition, *branches, *given])


def while_(b: OperatorBuilder) -> None:
    """WHILE: the inputs of condition and body."""
    options = b.options(WhileOptions)
    graphs = [b.subgraph(options.CondSubgraphIndex), b.subgraph(options.BodySubgraphIndex)]
    b.control_flow(OperationType.WHILE, [*graphs, *b.inputs()])
