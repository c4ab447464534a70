"""RUN of nnhal.onnx among operations of the HAL, and alone."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper

from nnhal_devices.driver import Argument, Control
from nnhal_frontends.onnx import import_onnx
from tests.devices.cpu_acc.test_workload import prepared
from tests.support.models import memory_of
from tests.support.onnx_models import by_onnxruntime, onnx_model, random, resolved


@pytest.mark.parametrize("inner", ["t1", "t2", "t9", "input0", "output0", "_t1"])
@pytest.mark.parametrize("alone", [True, False])
def test_values_of_a_branch_may_have_the_names_that_the_graph_gives(inner: str, alone: bool) -> None:
    branches = {
        f"{word}_branch": helper.make_graph(
            [helper.make_node("Shape", ["r"], [inner]), helper.make_node("Expand", [edge, inner], [word])],
            word,
            [],
            [helper.make_tensor_value_info(word, TensorProto.FLOAT, [2, 3])],
        )
        for word, edge in (("then", "zero"), ("else", "two"))
    }
    nodes = [
        helper.make_node("Mul", ["x", "two"], ["r"]),
        helper.make_node("Greater", ["level", "zero"], ["c"]),
        helper.make_node(
            "If", ["c"], ["chosen"], then_branch=branches["then_branch"], else_branch=branches["else_branch"]
        ),
        helper.make_node("Relu", ["chosen"], ["y"]),
    ]
    model = onnx_model(
        nodes, {"x": [2, 3], "level": []}, ["y"], {"zero": np.array(0, np.float32), "two": np.array(2, np.float32)}
    )
    imported = resolved(import_onnx(model, as_one=alone).model)
    assert (len(imported.model.main.operations) == 1) == alone
    workload = prepared(imported)
    x, y = random(2, 3), np.zeros((2, 3), np.float32)
    for level in (1.0, -1.0):
        given = [x, np.array([level], np.float32)]
        bound = workload.bind([memory_of(values) for values in given], [Argument(y.reshape(-1).view(np.uint8), (2, 3))])
        bound.run(Control())
        np.testing.assert_array_equal(y, by_onnxruntime(model, {"x": x, "level": np.array(level, np.float32)})[0])
