"""Dimensions of outputs that a file leaves open, and its user knows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx


def state_outputs(model: onnx.ModelProto, outputs: Mapping[str, Sequence[int]]) -> None:
    """Have a model declare dimensions of its outputs. One that declares others itself keeps them."""
    for value in model.graph.output:
        dimensions = outputs.get(value.name)
        if dimensions is None or not value.type.HasField("tensor_type"):
            continue
        shape = value.type.tensor_type.shape
        if not value.type.tensor_type.HasField("shape"):
            for _ in dimensions:
                shape.dim.add()
        if len(shape.dim) == len(dimensions):
            for dim, length in zip(shape.dim, dimensions, strict=True):
                if not dim.HasField("dim_value") or dim.dim_value < 1:
                    dim.dim_value = length
