"""IF and WHILE: operators that run subgraphs."""

from __future__ import annotations

from tflite import IfOptions, WhileOptions

from nnhal.types import OperationType
from nnhal_service.frontends.tflite.builder import OperatorBuilder


def if_(b: OperatorBuilder) -> None:
    """IF: a condition, then what both branches are given."""
    options = b.options(IfOptions)
    condition, *given = b.inputs() or [b.input(0)]
    branches = [b.subgraph(options.ThenSubgraphIndex()), b.subgraph(options.ElseSubgraphIndex())]
    b.control_flow(OperationType.IF, [condition, *branches, *given])


def while_(b: OperatorBuilder) -> None:
    """WHILE: the values of the loop, which condition and body are given."""
    options = b.options(WhileOptions)
    graphs = [b.subgraph(options.CondSubgraphIndex()), b.subgraph(options.BodySubgraphIndex())]
    b.control_flow(OperationType.WHILE, [*graphs, *b.inputs()])
