"""ONNX models of a few nodes, imported as flow graphs and compared with ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
from onnx import helper

from nnhal_mlip.command.model_file import FlowModel, onnx_flow_model
from nnhal_mlip.flow.graph.reference import evaluate
from nnhal_mlip.flow.passes.simplify import simplify
from tests.support.flow_graphs import random_inputs
from tests.support.onnx_models import by_onnxruntime

node = helper.make_node


def imported(
    model: onnx.ModelProto, shapes: Mapping[str, Sequence[int]] | None = None, public: bool = False
) -> FlowModel:
    return onnx_flow_model("m.onnx", model, shapes or {}, public)


def checked(model: onnx.ModelProto, tolerance: float = 1e-5, public: bool = False) -> FlowModel:
    """An imported model, which must compute what ONNX Runtime does, before and after simplification."""
    found = imported(model, public=public)
    inputs = random_inputs(found.graph)
    wanted = by_onnxruntime(model, inputs)
    for graph in (found.graph, simplify(found.graph)):
        values = evaluate(graph, inputs)
        for port, array in zip(found.outputs, wanted, strict=True):
            got = values[graph.outputs[port.value]]
            assert got.shape == (array.shape or (1,))  # the HAL has no scalars
            np.testing.assert_allclose(got, array, rtol=tolerance, atol=tolerance)
    return found
