"""The argument of a lowering function: one operation, and the graph that it adds nodes to."""

from __future__ import annotations

from collections.abc import Sequence

from nnhal.operations import OperationContext
from nnhal.types import FusedActivation, Operation
from nnhal_devices.cpu_acc.elements import quantization_of
from nnhal_devices.cpu_acc.graph import LoweredGraph
from nnhal_devices.cpu_acc.layout import RANK, Layout


class Emitter:
    """One operation. Inputs and outputs are named by their positions in it."""

    def __init__(self, op: OperationContext, operation: Operation, graph: LoweredGraph) -> None:
        self.op = op
        self.graph = graph
        self.inputs = operation.inputs
        self.outputs = operation.outputs
        graph.place = op.place

    def kept(self, position: int, layout: Layout = Layout.GIVEN) -> str:
        """The tensor of an input's elements."""
        return self.graph.kept(self.inputs[position], layout)

    def real(self, position: int, layout: Layout = Layout.GIVEN) -> str:
        """The tensor of the reals that an input's elements stand for."""
        return self.graph.real(self.inputs[position], layout)

    def dequantize(self, position: int, tensor: str) -> str:
        """The reals that a tensor of a quantised input's elements stands for, in whatever shape."""
        return self.graph.dequantize(tensor, quantization_of(self.op.inputs[position]))

    def keep(self, tensor: str, layout: Layout = Layout.GIVEN, output: int = 0) -> None:
        """Record which tensor holds the elements of an output."""
        self.graph.keep(self.outputs[output], tensor, layout)

    def keep_real(
        self,
        tensor: str,
        layout: Layout = Layout.GIVEN,
        activation: FusedActivation = FusedActivation.NONE,
        output: int = 0,
    ) -> None:
        """Clamp a tensor of reals by an activation, quantise it if need be, and record it as an output."""
        self.graph.keep_real(self.outputs[output], tensor, layout, activation)

    def common_layout(self, positions: Sequence[int]) -> Layout:
        """A layout for inputs that are combined element by element: the moved one if a variable has it already."""
        variables = [self.inputs[p] for p in positions if not self.graph.is_constant(self.inputs[p])]
        moved = any(self.graph.home(operand) is Layout.MOVED for operand in variables)
        movable = all(len(self.graph.dimensions[operand]) == RANK for operand in variables)
        movable = movable and all(len(self.graph.dimensions[self.inputs[p]]) <= RANK for p in positions)
        return Layout.MOVED if moved and movable else Layout.GIVEN
