"""Why an operator stays on the host that no row of the table asks about."""

from __future__ import annotations

from nnhal_mlip.flow.flow_partition import Objection
from nnhal_mlip.flow.graph.flow_graph import FlowNode
from nnhal_mlip.flow.graph.operators import Operator
from nnhal_mlip.flow.patterns.table import PATTERNS

_CLIPPING = (Operator.CLIP, Operator.LEAKY_RELU, Operator.SIGMOID, Operator.TANH)


def refuse_alone(node: FlowNode, beyond: bool) -> Objection:
    """Return why the accelerator does not take an operator alone."""
    if beyond or not any(node.operator in part.operators for row in PATTERNS for part in (*row.before, *row.after)):
        if node.operator in _CLIPPING:
            return Objection("ACTIVATION", node.operator, _activations(beyond), check="activation")
        asked = sorted({row.asked.value for row in PATTERNS if beyond or row.public})
        return Objection("OP", node.operator, ", ".join(asked), check="operator")
    if node.operator == Operator.CLIP:
        return Objection("ACTIVATION", node.operator, _activations(beyond), check="activation")
    before = [row.asked.value for row in PATTERNS if any(node.operator in part.operators for part in row.before)]
    after = [row.asked.value for row in PATTERNS if any(node.operator in part.operators for part in row.after)]
    allowed = f"directly {'before' if before else 'behind'} {' or '.join(before or after)}, with nothing else between"
    return Objection("OP", f"{node.operator} alone", allowed, check=f"{node.operator}.alone")


def refuse_shared(node: FlowNode, value: str, composite: str) -> Objection:
    """Return why an operator is no part of the layer beside it: something else needs the value between them."""
    got = f"{value}, which others read as well or the graph returns"
    return Objection("OP", got, f"a value that only {composite} has", check=f"{node.operator}.users")


def _activations(beyond: bool) -> str:
    return "relu or clip" if beyond else "relu"
