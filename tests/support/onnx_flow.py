"""ONNX models of a few nodes, imported as flow graphs and compared with ONNX Runtime."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper

from nnhal_mlip.command.onnx_import import import_onnx_graph
from nnhal_mlip.flow.graph.flow_graph import FlowGraph
from nnhal_mlip.flow.graph.reference import evaluate
from nnhal_mlip.flow.passes.simplify import simplify
from tests.support.flow_graphs import random_inputs
from tests.support.onnx_models import by_onnxruntime, onnx_model

node = helper.make_node


def checked(model: onnx.ModelProto, tolerance: float = 1e-5) -> FlowGraph:
    """The imported model, which must compute what ONNX Runtime does, before and after simplification."""
    graph = import_onnx_graph(model.SerializeToString())
    inputs = random_inputs(graph)
    wanted = by_onnxruntime(model, inputs)
    for each in (graph, simplify(graph)):
        values = evaluate(each, inputs)
        assert list(each.outputs) == [output.name for output in model.graph.output]
        for name, array in zip(each.outputs.values(), wanted, strict=True):
            assert values[name].shape == array.shape
            assert each.values[name].element_type == array.dtype
            np.testing.assert_allclose(values[name], array, rtol=tolerance, atol=tolerance)
    return graph


def one(
    op_type: str,
    *shape: int,
    constants: Sequence[Any] = (),
    opset: int = 21,
    more: Sequence[str] = (),
    **attributes: Any,
) -> FlowGraph:
    """A checked model of one node with an input of a shape, constants, and ``more`` inputs of the same shape."""
    named = {f"c{index}": value for index, value in enumerate(constants) if value is not None}
    names = [f"c{index}" if value is not None else "" for index, value in enumerate(constants)]
    made = node(op_type, ["x", *more, *names], ["y"], name="the node", **attributes)
    return checked(onnx_model([made], dict.fromkeys(("x", *more), shape), ["y"], named, opset))
