"""Files that ONNX Runtime runs, though ONNX's checker refuses them as they are."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnxruntime import InferenceSession

from nnhal_devices.cpu_ref.driver import CpuRef
from nnhal_frontends import import_model
from nnhal_frontends.errors import InvalidModel
from tests.support.extended import run_extended

X = np.array([-1, 0.5, 2], np.float32)


def model(domains: Mapping[str, int], *nodes: onnx.NodeProto, shape: list[int] | None = None) -> onnx.ModelProto:
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in "xy")
    imports = [helper.make_opsetid(*each) for each in domains.items()]
    return helper.make_model(helper.make_graph(nodes, "g", [x], [y]), opset_imports=imports, ir_version=8)


def unnamed() -> onnx.ModelProto:
    made = model({"": 17}, helper.make_node("Relu", ["x"], ["y"]), shape=[3])
    made.graph.name = ""
    return made


def of_own_domain() -> onnx.ModelProto:
    first, last = helper.make_node("Relu", ["x"], ["h"], domain="ai.onnx"), helper.make_node("Neg", ["h"], ["y"])
    return model({"ai.onnx": 17}, first, last, shape=[3])


def unsorted() -> onnx.ModelProto:
    return model({"": 17}, helper.make_node("Neg", ["h"], ["y"]), helper.make_node("Relu", ["x"], ["h"]), shape=[3])


def within_a_branch() -> onnx.ModelProto:
    """The last node of the file writes what the branches of the first read."""
    branch = helper.make_graph(
        [helper.make_node("Relu", ["h"], ["b"])],
        "branch",
        [],
        [helper.make_tensor_value_info("b", TensorProto.FLOAT, [3])],
    )
    chosen = helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=branch)
    condition = helper.make_node("Constant", [], ["c"], value=helper.make_tensor("c", TensorProto.BOOL, [], [True]))
    return model({"": 17}, chosen, condition, helper.make_node("Neg", ["x"], ["h"]), shape=[3])


def of_any_rank() -> onnx.ModelProto:
    return model({"": 13}, helper.make_node("Add", ["x", "x"], ["h"]), helper.make_node("Neg", ["h"], ["y"]))


@pytest.mark.parametrize("make", [unnamed, of_own_domain, unsorted, within_a_branch, of_any_rank])
@pytest.mark.parametrize("as_one", [True, False])
def test_what_runs_elsewhere_is_imported(make: Callable[[], onnx.ModelProto], as_one: bool) -> None:
    content = make().SerializeToString()
    (expected,) = InferenceSession(content, providers=["CPUExecutionProvider"]).run(None, {"x": X})
    found = run_extended(CpuRef(), import_model(content, as_one=as_one), {"x": X})
    np.testing.assert_array_equal(found["y"], expected)


def test_a_domain_of_the_runtime_need_not_be_imported() -> None:
    content = model({"": 17}, helper.make_node("Gelu", ["x"], ["y"], domain="com.microsoft"), shape=[3])
    InferenceSession(content.SerializeToString(), providers=["CPUExecutionProvider"])
    assert import_model(content.SerializeToString()).node_count == 1


def test_a_cycle_is_refused() -> None:
    nodes = [helper.make_node("Add", ["x", "b"], ["a"]), helper.make_node("Neg", ["a"], ["b"])]
    content = model({"": 17}, *nodes, helper.make_node("Relu", ["b"], ["y"]), shape=[3]).SerializeToString()
    with pytest.raises(InvalidModel, match="topologically sorted"):
        import_model(content)
