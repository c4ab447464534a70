"""A graph is built with names of one's own, and what does not fit is refused by the user's name of the node."""

from __future__ import annotations

import numpy as np
import pytest

from nnhal_mlip.flow.errors import FlowError
from nnhal_mlip.flow.graph.builder import FlowGraphBuilder
from nnhal_mlip.flow.graph.flow_graph import FlowValue, SourceNode

FLOAT = np.dtype(np.float32)


def test_names_that_are_taken_get_numbers() -> None:
    b = FlowGraphBuilder()
    names = [b.input("x", (2,)), b.constant("x", np.zeros(2)), b.add("relu", ["x"], name="x"), b.add("relu", ["x"])]
    assert names == ["x", "x_1", "x_2", "relu_1"]
    graph = b.build({"user's": "x_2"})
    assert graph.inputs == ("x",)
    assert set(graph.constants) == {"x_1"}
    assert graph.outputs == {"user's": "x_2"}
    assert [node.inputs for node in graph.nodes] == [("x",), ("x",)]


def test_results_have_the_type_of_the_first_input_and_keep_its_scale_if_values_stay() -> None:
    b = FlowGraphBuilder()
    b.input("x", (1, 4), np.int8, (0.5,))
    b.input("h", (1, 4), np.float16)
    assert b.values[b.add("relu", ["x"])] == FlowValue((1, 4), np.dtype(np.int8), (0.5,))
    assert b.values[b.add("add", ["x", "x"])] == FlowValue((1, 4), np.dtype(np.int8))
    assert b.values[b.add("sigmoid", ["h"])] == FlowValue((1, 4), np.dtype(np.float16))


def test_given_results_say_scales_and_may_not_say_another_shape() -> None:
    b = FlowGraphBuilder()
    b.input("x", (1, 4), np.int8, (0.5,))
    given = FlowValue((1, 4), np.dtype(np.int8), (0.25,))
    assert b.values[b.add("add", ["x", "x"], results=[given])] == given
    with pytest.raises(FlowError, match=r"node 'sum' \(add\): got results of shape \[1, 5\], expected \[1, 4\]"):
        b.add("add", ["x", "x"], results=[FlowValue((1, 5), FLOAT)], name="sum")


def test_operators_of_the_host_need_results_and_a_way_to_compute_them() -> None:
    b = FlowGraphBuilder()
    b.input("x", (3,))
    with pytest.raises(FlowError, match=r"node 'mine' \(onnx.Erf\): got no types of its results"):
        b.add("onnx.Erf", ["x"], sources=[SourceNode(4, "mine", "Erf")])
    with pytest.raises(FlowError, match=r"node 'mine' \(onnx.Erf\): got no way to compute it"):
        b.add("onnx.Erf", ["x"], sources=[SourceNode(4, "mine", "Erf")], results=[FlowValue((3,), FLOAT)])
    two = [FlowValue((1,), FLOAT), FlowValue((2,), np.dtype(np.int64))]
    first = b.add("onnx.Split", ["x"], evaluate=lambda arrays: [arrays[0], arrays[0]], results=two, names=["a", "x"])
    assert b.outputs_of(first) == ("a", "x_1")
    assert b.values["x_1"] == two[1]


def test_values_that_do_not_exist_are_refused() -> None:
    b = FlowGraphBuilder()
    with pytest.raises(FlowError, match=r"node 'r' \(relu\): got input 'x'"):
        b.add("relu", ["x"], name="r")
    with pytest.raises(FlowError, match="output 'y': got 'z'"):
        b.build({"y": "z"})
