"""Inputs of an ONNX model that have a default: an initializer of the same name, from IR version 4 on.

A model is imported with its defaults as constants, which devices fold and keep. An input that has a shape given is the
caller's: its default is dropped, and it is an input like others.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, MutableSequence
from typing import TypeVar

import numpy as np
import onnx
from onnx import helper

from nnhal_frontends.imported import ImportedTensor

T = TypeVar("T")
_LEAST_IR_VERSION = 4
"""Before it, every initializer had to be listed as an input too, and was a constant all the same."""


def default_inputs(model: onnx.ModelProto) -> tuple[ImportedTensor, ...]:
    """Return the inputs that may be left out, in the order of the file; their operand is -1.

    One whose rank the file leaves open has the shape of its default.
    """
    if model.ir_version < _LEAST_IR_VERSION:
        return ()
    graph = model.graph
    declared = {value.name: value.type.tensor_type for value in graph.input}
    values = (*((t, t.dims) for t in graph.initializer), *((t.values, t.dims) for t in graph.sparse_initializer))
    defaults = {tensor.name: (tensor.data_type, dims) for tensor, dims in values if tensor.name in declared}
    found = []
    for name, kind in declared.items():
        if name in defaults:
            code, dimensions = defaults[name]
            shape = tuple(dim.dim_value for dim in kind.shape.dim) if kind.HasField("shape") else tuple(dimensions)
            found.append(ImportedTensor(name, -1, np.dtype(helper.tensor_dtype_to_np_dtype(code)), shape))
    return tuple(found)


def drop_defaults(model: onnx.ModelProto, names: Collection[str]) -> None:
    """Remove the initializers of these names from a model, whose inputs they become.

    The shapes that it declares of what it computes go too: they may follow from the defaults.
    """
    graph = model.graph
    _drop(graph.initializer, lambda tensor: tensor.name in names)
    _drop(graph.sparse_initializer, lambda tensor: tensor.values.name in names)
    for value in (*graph.value_info, *graph.output):
        if value.type.HasField("tensor_type"):
            value.type.tensor_type.ClearField("shape")


def _drop(entries: MutableSequence[T], is_dropped: Callable[[T], bool]) -> None:
    for number in reversed(range(len(entries))):
        if is_dropped(entries[number]):
            del entries[number]
