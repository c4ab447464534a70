"""Facts that a check is asked about: whether the accelerator takes an operator as it stands in its graph, and by which
rules.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from nnhal_mlip.flow.flow_partition import Objection
from nnhal_mlip.flow.graph.flow_graph import FlowGraph, FlowNode, FlowValue
from nnhal_mlip.flow.graph.operators import Operator
from nnhal_mlip.flow.limits import MAX_BATCH, MAX_RANK, FlowLimits, OperatorLimits

WEIGHTED = (Operator.CONV2D, Operator.CONV2D_TRANSPOSE, Operator.DENSE)
"""Their second operand holds weights."""


@dataclass(frozen=True, slots=True)
class CheckQuestion:
    """Question if the accelerator takes a node."""

    graph: FlowGraph
    node: FlowNode
    rules: FlowLimits
    bare: Collection[str] = ()
    """The outputs of convolutions and dense layers that are in no composite."""

    @property
    def limits(self) -> OperatorLimits:
        return self.rules.operators[Operator(self.node.operator)]

    @property
    def data(self) -> FlowValue:
        return self.graph.values[self.node.inputs[0]]

    @property
    def result(self) -> FlowValue:
        return self.graph.values[self.node.output]

    def computed_operands(self) -> tuple[FlowValue, ...]:
        """Return the types of the operands that are neither weights nor other constants."""
        operands = self.node.inputs[:1] if self.node.operator in WEIGHTED else self.node.inputs
        return tuple(self.graph.values[name] for name in operands if name not in self.graph.constants)

    def origin(self, name: str) -> str:
        """Return the value of the user's model that a value holds in another layout."""
        producers = self.graph.producers()
        while name in producers and not producers[name].sources:
            name = producers[name].inputs[0]
        return name

    def object_to(self, check: str, code: str, got: str, allowed: str, hint: str = "") -> Objection:
        return Objection(code, got, allowed, hint, f"{self.node.operator}.{check}")

    def element_type(self, value: FlowValue, channels: int = 1) -> Objection | None:
        """Object to an element type; to 8-bit values without a scale for all, or for each of the channels."""
        if value.element_type.name not in self.rules.element_types:
            return self.object_to(
                "element_type", "DTYPE", value.element_type.name, " or ".join(self.rules.element_types)
            )
        if value.element_type.kind == "i" and len(value.scales) not in (1, channels):
            count = "one" if channels == 1 else f"one or {channels}"
            return self.object_to("scales", "QUANT", f"int8 values with {len(value.scales)} scales", count)
        return None

    def rank(self, value: FlowValue, ranks: Collection[int], what: str = "data") -> Objection | None:
        """Object to a rank, unless none are named."""
        if not ranks or value.rank in ranks:
            return None
        allowed = f"rank {min(ranks)} to {max(ranks)}" if len(ranks) > 2 else "rank " + " or ".join(map(str, ranks))
        return self.object_to("rank", "RANK", f"{what} of rank {value.rank}, shape {list(value.shape)}", allowed)

    def batch(self, largest: int, unknown: bool = True) -> Objection | None:
        """Object to a large batch of the first operand, and to an unknown one unless that is allowed.

        A tensor of one axis has no batch. ``largest`` is 0 if any is allowed.
        """
        batch = self.data.shape[0] if self.data.rank > 1 else 1
        allowed = "1" if largest == 1 else f"1 to {largest}"
        if not batch and not unknown:
            return self.object_to("batch", "DYN_SHAPE", "an unknown batch", allowed, "fix the batch")
        return self.object_to("batch", "SHAPE", f"batch {batch}", allowed) if batch > largest > 0 else None

    def layout(self, attribute: str, layouts: Collection[str]) -> Objection | None:
        """Object to the layout that an attribute has, if the operator has the attribute."""
        layout = self.node.text(attribute) if attribute in self.node.attributes else None
        if layout is None or layout in layouts:
            return None
        return self.object_to(attribute, "NO_IMPL", layout, " or ".join(layouts))

    def compiles(self) -> Objection | None:
        """Beyond the public flow, object to what no operator may have, so that whatever is taken compiles."""
        if not self.rules.beyond:
            return None
        operands = self.computed_operands()
        for value in (*operands, self.result):
            if 0 in value.shape:
                return self.object_to("shape", "DYN_SHAPE", f"shape {list(value.shape)}", "extents that are known")
            if not 1 <= value.rank <= MAX_RANK:
                return self.rank(value, range(1, MAX_RANK + 1), "a tensor")
        for value in operands:
            if value.rank > 1 and value.shape[0] > MAX_BATCH:
                got = f"an operand of shape {list(value.shape)}, batch {value.shape[0]}"
                return self.object_to("batch", "SHAPE", got, f"1 to {MAX_BATCH}")
        return self.element_type(self.result)
