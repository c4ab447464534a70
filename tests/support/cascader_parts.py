"""Graphs of one part for the tests of the cascader's prices, and stripes of them."""

from __future__ import annotations

from nnhal_cascade.geometry.accesses import AffineRow
from nnhal_cascade.geometry.box import Interval, Shape
from nnhal_cascade.graph.cascader_graph import (
    Activation,
    CascaderGraph,
    CascaderTensor,
    Kernel,
    Part,
    PartConstants,
    PartInput,
    PartKind,
)

SCALE_BYTES = 10


class SameElements:
    """An axis along which an output needs the same elements of its input. Prices do not ask."""

    def needs(self, wanted: Interval) -> Interval:
        return wanted

    def affine(self) -> AffineRow:
        return AffineRow(1.0, 0.0, 0)


def one_part(
    kind: PartKind,
    inputs: tuple[tuple[int, int, int], ...],
    output: tuple[int, int, int],
    *,
    kernel: Kernel | None = None,
    activation: Activation = Activation.NONE,
    operation: str = "",
    element_bytes: int = 1,
    of_network: bool = False,
    passes: int = 1,
) -> CascaderGraph:
    """Return a graph of one part. Its weights have a byte for each element, if its kind has any."""
    kernel = kernel or Kernel()
    tensors = [
        CascaderTensor(index, f"tensor {index}", Shape(*shape), index, of_network, of_network, element_bytes)
        for index, shape in enumerate((*inputs, output))
    ]
    window = kernel.height * kernel.width
    weights = {
        PartKind.CONVOLUTION: window * inputs[0][2],
        PartKind.TRANSPOSE_CONVOLUTION: window * inputs[0][2],
        PartKind.VECTOR_PRODUCT: inputs[0][2],
        PartKind.DEPTHWISE: window,
    }
    same = SameElements()
    part = Part(
        index=0,
        name="part",
        kind=kind,
        operations=(0,),
        inputs=tuple(PartInput(index, same, same, same) for index in range(len(inputs))),
        output=len(inputs),
        kernel=kernel,
        constants=PartConstants(weights[kind], SCALE_BYTES) if kind in weights else None,
        activation=activation,
        operation=operation,
        passes=passes,
    )
    return CascaderGraph((part,), tuple(tensors))
