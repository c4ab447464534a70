"""Bound what ONNX Runtime computes when it compiles a model.

It computes operations whose inputs are all constant, one after another, and keeps every result until it is done: a
chain of a few such operations may take all memory. So it leaves large results to the runs, and computes nothing if all
results together are too large.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from math import prod

import onnx
from onnx import ModelProto, NodeProto, helper

from nnhal.extensions.onnx import ELEMENT_TYPES as EXTENSION_TYPES
from nnhal.extensions.onnx import number_of
from nnhal.resolved import ResolvedModel, propagate_dimensions
from nnhal.types import OperandLifeTime
from nnhal.types.layout import ELEMENT_TYPES, Dimensions
from nnhal_devices.cpu_acc.branches import branches_of, is_if
from nnhal_devices.cpu_acc.messages import decode, has_branches, is_run, message_of
from nnhal_devices.cpu_acc.session import LARGEST_FOLDED_BYTES

MOST_RESULTS = 256 << 20
"""Bytes of all results that are computed."""


def folds(model: ResolvedModel, dimensions: Sequence[Dimensions]) -> bool:
    """Return whether the operations on constants may be computed when the model is compiled.

    ``dimensions`` are the propagated ones of main's operands. A result of unknown size counts as LARGEST_FOLDED_BYTES.
    """
    return _folded(model, dimensions) <= MOST_RESULTS


def _folded(model: ResolvedModel, dimensions: Sequence[Dimensions]) -> int:
    """Return the bytes of the results that are computed, or more than MOST_RESULTS if those are more."""
    graph, total = model.model.main, 0
    known = set(model.constants[0])
    known.update(index for index, o in enumerate(graph.operands) if o.lifetime == OperandLifeTime.NO_VALUE)
    for operation in graph.operations:
        run = is_run(model.model, operation)
        if run:
            message = decode(message_of(model, operation))
            given = zip(message.graph.input, operation.inputs[1:], strict=False)
            total += _folded_inside(message, {value.name for value, index in given if index in known})
        if is_if(operation):
            total += sum(_folded(branch, propagate_dimensions(branch)) for branch in branches_of(model, operation))
        if known.issuperset(operation.inputs):
            known.update(operation.outputs)
            total += sum(_size(model, index, dimensions[index]) for index in operation.outputs)
        if total > MOST_RESULTS:
            break
    return total


def _size(model: ResolvedModel, index: int, dimensions: Dimensions) -> int:
    code = model.model.main.operands[index].type
    number = number_of(model.model, code)
    element = ELEMENT_TYPES.get(code) if number is None else EXTENSION_TYPES.get(number)
    if element is None or not dimensions or 0 in dimensions:
        return LARGEST_FOLDED_BYTES
    return min(LARGEST_FOLDED_BYTES, element.itemsize * prod(dimensions))


def _folded_inside(message: ModelProto, constants: set[str]) -> int:
    """Return the bytes of the results of the nodes in a message that read constants only, those inputs among them."""
    if len(message.graph.node) < 2:
        return 0  # its results are those of the operation
    graph = message.graph
    known = {"", *constants, *(tensor.name for tensor in graph.initializer)}
    given: list[NodeProto] = []
    folded: list[NodeProto] = []
    for node in graph.node:
        if known.issuperset(node.input):
            known.update(node.output)
            (given if node.op_type == "Constant" else folded).append(node)
    if not folded:
        return 0
    results = [name for node in folded for name in node.output]
    read = {name for node in folded for name in node.input}
    named = read.union(results)
    # These nodes and what they read tell alone what their results are, unless graphs of theirs read other values.
    alone = ModelProto(ir_version=message.ir_version, opset_import=message.opset_import, functions=message.functions)
    alone.graph.name = graph.name
    alone.graph.node.extend(node for node in given if not read.isdisjoint(node.output))
    alone.graph.node.extend(folded)
    alone.graph.initializer.extend(tensor for tensor in graph.initializer if tensor.name in read)
    alone.graph.input.extend(value for value in graph.input if value.name in read)
    alone.graph.value_info.extend(value for value in graph.value_info if value.name in named)
    alone.graph.output.extend(value for value in graph.output if value.name in named)
    with suppress(onnx.shape_inference.InferenceError):
        graph = onnx.shape_inference.infer_shapes(message if has_branches(alone.graph) else alone).graph
    kinds = {value.name: value.type.tensor_type for value in (*graph.value_info, *graph.output)}
    return sum(_result(kinds.get(name)) for name in results)


def _result(kind: onnx.TypeProto.Tensor | None) -> int:
    if kind is None or not kind.elem_type or not all(dim.HasField("dim_value") for dim in kind.shape.dim):
        return LARGEST_FOLDED_BYTES
    width = helper.tensor_dtype_to_np_dtype(kind.elem_type).itemsize
    return min(LARGEST_FOLDED_BYTES, width * prod(dim.dim_value for dim in kind.shape.dim))
