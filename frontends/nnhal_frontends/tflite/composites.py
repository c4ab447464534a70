"""Replace composites by the operators that they consist of: the HAL has operations for most of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from nnhal_frontends.errors import InvalidModel
from nnhal_frontends.limits import ImportLimits
from nnhal_frontends.tflite.graph import TfliteGraph, TfliteOperator, TfliteTensor
from nnhal_frontends.tflite.options import subgraphs_of

_COMPOSITE = "STABLEHLO_COMPOSITE"
_DEEPEST = 16


def without_composites(graphs: Sequence[TfliteGraph], limits: ImportLimits) -> tuple[TfliteGraph, ...]:
    """Return the subgraphs with each composite replaced by the operators that it consists of.

    Raises InvalidModel if there are too many operators then, or if a composite does not fit its subgraph, and
    UnsupportedNode if two outputs of a composite are the same tensor.
    """
    if not any(operator.op_type == _COMPOSITE for graph in graphs for operator in graph.operators):
        return tuple(graphs)
    inliner = _Inliner(graphs, limits.nodes)
    return tuple(inliner.inlined(graph) for graph in graphs)


@dataclass(slots=True)
class _Inliner:
    graphs: Sequence[TfliteGraph]
    nodes_left: int

    def inlined(self, graph: TfliteGraph) -> TfliteGraph:
        tensors, operators = list(graph.tensors), list[TfliteOperator]()
        for operator in graph.operators:
            self._add(operator, tensors, operators, 0)
        return replace(graph, tensors=tuple(tensors), operators=tuple(operators))

    def _add(
        self, operator: TfliteOperator, tensors: list[TfliteTensor], operators: list[TfliteOperator], depth: int
    ) -> None:
        """Add an operator; for a composite, the operators that it consists of, which may be composites too."""
        part = self._part(operator)
        if part is None:
            self.nodes_left -= 1
            if self.nodes_left < 0:
                raise InvalidModel("the composites of the file are made of more operators than are allowed")
            operators.append(operator)
            return
        if depth == _DEEPEST:
            raise InvalidModel(f"composite '{operator.name}' is nested in more than {_DEEPEST} others, or in itself")
        places: dict[int, int | None] = dict(zip(part.inputs, operator.inputs, strict=True))
        places |= dict(zip(part.outputs, operator.outputs, strict=True))
        for index, tensor in enumerate(part.tensors):
            if index not in places:
                places[index] = len(tensors)
                tensors.append(tensor)
        for inner in part.operators:
            own = inner._replace(
                name=f"{operator.name}/{inner.name.partition('/')[2] or inner.name}",
                inputs=tuple(None if i is None else places[i] for i in inner.inputs),
                outputs=tuple(place for i in inner.outputs if (place := places[i]) is not None),
            )
            self._add(own, tensors, operators, depth + 1)

    def _part(self, operator: TfliteOperator) -> TfliteGraph | None:
        """Return the subgraph that replaces an operator, or None if the operator is kept.

        That is so if it is no composite, or if an output of the subgraph is made by none of its operators.
        Raises UnsupportedNode if two outputs are the same tensor: LiteRT gives only one of them a value.
        """
        if operator.op_type != _COMPOSITE:
            return None
        numbers = list(subgraphs_of(operator).values())
        if len(numbers) != 1 or not 0 < numbers[0] < len(self.graphs):
            raise InvalidModel(f"composite '{operator.name}' is made of subgraph {numbers}, expected one of the file's")
        part = self.graphs[numbers[0]]
        ends = (len(operator.inputs), len(operator.outputs)), (len(part.inputs), len(part.outputs))
        if ends[0] != ends[1]:
            got, expected = (f"{inputs} inputs and {outputs} outputs" for inputs, outputs in ends)
            raise InvalidModel(f"composite '{operator.name}' has {got}, its subgraph {expected}")
        if len(set(part.outputs)) != len(part.outputs):
            raise operator.unsupported("outputs of its subgraph are the same tensor", "a tensor for each output")
        made = {index for inner in part.operators for index in inner.outputs}
        return part if made.issuperset(part.outputs) else None
