"""The names that a model file gives to dimensions of its inputs."""

from __future__ import annotations

from nnhal_frontends.content import ModelContent
from nnhal_frontends.tflite_identifier import is_tflite


def dimension_names(content: ModelContent) -> dict[str, tuple[str, ...]]:
    """Return a name for each dimension of each input of a valid model, empty for those without one.

    TFLite files have no such names. Inputs of no known rank, and those that are no tensors, are left out.
    """
    if is_tflite(content):
        return {}
    from onnx import ModelProto  # "import onnx" would name the subpackage here

    graph = ModelProto.FromString(content if isinstance(content, bytes) else content[:]).graph
    return {
        value.name: tuple(axis.dim_param for axis in value.type.tensor_type.shape.dim)
        for value in graph.input
        if value.type.tensor_type.HasField("shape")
    }
