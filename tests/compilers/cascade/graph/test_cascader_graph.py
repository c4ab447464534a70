from __future__ import annotations

from dataclasses import replace

from nnhal_cascade.graph.cascader_graph import CascaderGraph, tensor_names
from tests.support.cascades import GRAPH


def test_tensors_of_one_name_are_told_apart() -> None:
    tensors = tuple(replace(tensor, name="same" if tensor.index < 2 else tensor.name) for tensor in GRAPH.tensors)
    names = tensor_names(CascaderGraph(GRAPH.parts, tensors))
    assert names == ["same (tensor 0)", "same (tensor 1)", "b", "c", "d"]
