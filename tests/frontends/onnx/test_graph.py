"""Reading ONNX models: which are refused, and with which messages."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx.helper import make_function, make_graph, make_model, make_node, make_opsetid, make_tensor_value_info

from nnhal_frontends.errors import InvalidModel
from nnhal_frontends.onnx.graph import read_graph
from tests.support.onnx_models import onnx_model


def relu(shape: list[int | str]) -> onnx.ModelProto:
    return onnx_model([make_node("Relu", ["x"], ["y"])], {"x": shape}, ["y"])


def test_shapes_are_inferred_and_unknown_dimensions_keep_their_names() -> None:
    graph = read_graph(relu(["N", 3]))
    assert graph.shape("y") == (0, 3)
    assert graph.sizes("y") == ("N", 3)


def test_unknown_dimensions_can_be_fixed() -> None:
    assert read_graph(relu(["N", 3]), {"x": (4, 3)}).shape("y") == (4, 3)
    assert read_graph(relu(["N", "M"]), {"x": (0, 3)}).sizes("y") == ("N", 3)
    assert read_graph(relu(["N", "M"]), {"x": (2, 0)}).sizes("y") == (2, "M")


@pytest.mark.parametrize(
    ("name", "shape", "message"),
    [
        ("z", (1, 3), r"given for 'z', the model's inputs are \['x'\]"),
        ("x", (1, 4), r"shape \[1, 4\] is given for input 'x' of shape \[\?, 3\]"),
        ("x", (3,), r"shape \[3\] is given"),
        ("x", (0, 4), r"shape \[0, 4\] is given"),
        ("x", (-1, 3), r"shape \[-1, 3\] is given"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(name: str, shape: tuple[int, ...], message: str) -> None:
    with pytest.raises(InvalidModel, match=message):
        read_graph(relu(["N", 3]), {name: shape})


def test_an_invalid_model_is_refused() -> None:
    model = relu([3])
    model.graph.node[0].op_type = "Reul"
    with pytest.raises(InvalidModel, match=r"not a valid ONNX model.*Reul"):
        read_graph(model)


def test_contradicting_shapes_are_refused() -> None:
    nodes = [make_node("Add", ["x", "c"], ["y"])]
    constant = onnx.numpy_helper.from_array(np.zeros(4, np.float32), "c")
    x, y = (make_tensor_value_info(name, onnx.TensorProto.FLOAT, [3]) for name in "xy")
    graph = make_graph(nodes, "g", [x], [y], [constant])
    model = make_model(graph, opset_imports=[make_opsetid("", 17)], ir_version=9)
    with pytest.raises(InvalidModel, match="contradict"):
        read_graph(model)


def test_an_old_opset_is_refused() -> None:
    model = relu([3])
    model.opset_import[0].CopyFrom(make_opsetid("", 6))
    with pytest.raises(InvalidModel, match="opset 6, expected 7 or later"):
        read_graph(model)


def test_inputs_with_initializers_are_constants() -> None:
    model = onnx_model(
        [make_node("Add", ["x", "k"], ["y"])], {"x": [2], "k": [2]}, ["y"], {"k": np.ones(2, np.float32)}
    )
    assert read_graph(model).inputs == ("x",)


def test_functions_are_inlined() -> None:
    model = relu([2])
    model.graph.node[0].CopyFrom(make_node("Twice", ["x"], ["y"], domain="mine"))
    model.opset_import.append(make_opsetid("mine", 1))
    body = [make_node("Add", ["a", "a"], ["b"])]
    model.functions.append(make_function("mine", "Twice", ["a"], ["b"], body, [make_opsetid("", 21)]))
    assert [node.op_type for node in read_graph(model).nodes] == ["Add"]


def test_no_tensor_of_a_pass_has_a_name_of_the_model() -> None:
    """Every name that a pass would give to what it makes is taken, in the graph or in a branch."""
    branch = make_graph(
        [make_node("Neg", ["x"], ["y/output"])],
        "branch",
        [],
        [make_tensor_value_info("y/output", onnx.TensorProto.FLOAT, [2])],
    )
    nodes = [make_node("Cast", ["d"], ["c"], to=onnx.TensorProto.BOOL)]
    nodes += [make_node("If", ["c"], ["z"], then_branch=branch, else_branch=branch)]
    nodes.append(make_node("Abs", ["x"], ["x/shape"]))
    graph = read_graph(onnx_model(nodes, {"x": [2], "d": []}, ["z", "x/shape"]))
    assert graph.fresh("y/output") == "y/output_"
    assert graph.fresh("x/shape") == "x/shape_"
    assert graph.fresh("z/shape") == "z/shape"
