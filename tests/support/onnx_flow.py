"""ONNX models of a few nodes, imported as flow graphs and compared with ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
from onnx import helper

from nnhal_mlip.command.model_file import FlowModel, onnx_flow_model
from nnhal_mlip.flow.graph.flow_graph import FlowGraph
from nnhal_mlip.flow.graph.reference import evaluate
from nnhal_mlip.flow.passes.simplify import simplify
from tests.support.flow_graphs import random_inputs
from tests.support.onnx_models import by_onnxruntime, onnx_model

node = helper.make_node


def as_devices_see_it(model: onnx.ModelProto, tolerance: float = 1e-5) -> FlowModel:
    """A model by the framework's import, which must compute what ONNX Runtime does."""
    found = onnx_flow_model("m.onnx", model, {}, public=False)
    inputs = random_inputs(found.graph)
    values = evaluate(found.graph, inputs)
    for port, wanted in zip(found.outputs, by_onnxruntime(model, inputs), strict=True):
        got = values[found.graph.outputs[port.value]]
        np.testing.assert_allclose(got, wanted, rtol=tolerance, atol=tolerance)
    return found


def as_it_is(model: onnx.ModelProto, shapes: Mapping[str, Sequence[int]] | None = None) -> FlowGraph:
    """Return the public view of a model: its own nodes."""
    found = onnx_flow_model("m.onnx", model, shapes or {}, public=True)
    return replace(found.graph, outputs={port.name: found.graph.outputs[port.value] for port in found.outputs})


def checked(model: onnx.ModelProto, tolerance: float = 1e-5) -> FlowGraph:
    """The model as it is, which must compute what ONNX Runtime does, before and after simplification."""
    graph = as_it_is(model)
    inputs = random_inputs(graph)
    wanted = by_onnxruntime(model, inputs)
    for each in (graph, simplify(graph)):
        values = evaluate(each, inputs)
        assert list(each.outputs) == [output.name for output in model.graph.output]
        for name, array in zip(each.outputs.values(), wanted, strict=True):
            assert values[name].shape == (array.shape or (1,))  # the HAL has no scalars
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
