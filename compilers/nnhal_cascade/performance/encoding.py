"""A model as parts whose weights have the size in which they lie at rest."""

from __future__ import annotations

from dataclasses import replace

from nnhal.operations.filters import FILTER
from nnhal.resolved import ResolvedModel
from nnhal_cascade.graph.cascader_graph import CascaderGraph, Kernel, Part, PartKind
from nnhal_cascade.graph.matchers import build_graph
from nnhal_cascade.performance.blocks import prefers_part_kernel
from nnhal_cascade.performance.encoded_weights import WeightOrder, encoded_bytes
from nnhal_cascade.performance.workload import reach, workload_of


def encoded_graph(model: ResolvedModel) -> CascaderGraph:
    """Return what ``build_graph`` does, with the bytes of weights that the NPU's encoding takes. Raises the same."""
    graph = build_graph(model)
    return replace(graph, parts=tuple(_encoded(model, graph, part) for part in graph.parts))


def _encoded(model: ResolvedModel, graph: CascaderGraph, part: Part) -> Part:
    """A part with the size of its encoded weights, spread over its channels; constant operands are not encoded."""
    constants, channels = part.constants, graph.tensors[part.output].shape.channels
    if constants is None or not constants.scale_bytes:
        return part
    main = model.model.main
    operand = main.operations[part.operations[0]].inputs[FILTER]
    weights, is_product = model.constants[0][operand], part.kind == PartKind.VECTOR_PRODUCT
    given, encoded = (1, 1) if is_product else _elements(part.kernel)
    shape = channels, encoded, weights.size // (channels * given)
    if part.kind == PartKind.DEPTHWISE:
        order = WeightOrder.DEPTHWISE
    elif prefers_part_kernel(workload_of(graph, part)):
        order = WeightOrder.PART_KERNEL
    else:
        order = WeightOrder.DEPTH_FIRST
    size = encoded_bytes(weights, shape, main.operands[operand].zero_point, order)
    return replace(part, constants=replace(constants, weight_bytes=-(-size // channels)))


def _elements(kernel: Kernel) -> tuple[int, int]:
    """The elements of a kernel, and those that are encoded: beyond a dilation of 2 there are zeros between them."""
    height, width = _spread(kernel.height, kernel.dilation_y), _spread(kernel.width, kernel.dilation_x)
    return kernel.height * kernel.width, height * width


def _spread(size: int, dilation: int) -> int:
    return size if dilation <= 2 else reach(size, dilation if dilation % 2 else dilation // 2)
