"""Inputs and outputs that a user declares to be state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from nnhal_frontends import StatePair, import_model
from nnhal_frontends.errors import InvalidModel
from nnhal_frontends.imported import ImportedModel
from tests.support.onnx_models import onnx_model
from tests.support.stateful_models import running_total
from tests.support.tflite_variables import running_sum

H = StatePair("before", "after")


def imported(content: bytes, *pairs: StatePair, shapes: Mapping[str, Any] | None = None) -> ImportedModel:
    return import_model(content, states=pairs, shapes=shapes)


def dimensions(model: ImportedModel) -> list[tuple[int, ...]]:
    """The dimensions of the only state, before and after a run, and its first value's."""
    (state,) = model.states
    operands = model.model.main.operands
    assert operands[state.before.operand].type == operands[state.after.operand].type
    return [operands[t.operand].dimensions for t in (state.before, state.after)] + [state.initial.shape]


def test_a_state_is_neither_input_nor_output() -> None:
    model = imported(running_total(), H)
    assert [t.name for t in (*model.inputs, *model.outputs)] == ["x", "y"]
    assert [t.name for t in (*model.all_inputs, *model.all_outputs)] == ["x", "before", "y", "after"]
    assert model.model.main.input_indexes == tuple(t.operand for t in model.all_inputs)
    assert not model.states[0].initial.any()


@pytest.mark.parametrize(
    ("pair", "expected"),
    [
        (H, (1, 1)),
        (StatePair("before", "after", dimensions=(1, 5)), (1, 5)),
        (StatePair("before", "after", dimensions=(0, 5)), (1, 5)),
        (StatePair("before", "after", np.ones((1, 7), np.float32)), (1, 7)),
    ],
)
def test_dimensions_that_the_file_leaves_open_are_given_or_1(pair: StatePair, expected: tuple[int, ...]) -> None:
    assert dimensions(imported(running_total(("m", "n")), pair)) == [expected] * 3


def test_an_output_whose_dimensions_nobody_can_infer_has_those_of_the_state() -> None:
    """As in recurrent networks that choose a branch by an input: inference knows not even which axes are which."""
    branch = helper.make_graph(
        [helper.make_node("Reshape", ["sum", "shape"], ["branch"])],
        "branch",
        [],
        [helper.make_tensor_value_info("branch", TensorProto.FLOAT, None)],
    )
    nodes = [
        helper.make_node("Add", ["x", "before"], ["sum"]),
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("If", ["choice"], ["after"], then_branch=branch, else_branch=branch),
        helper.make_node("Identity", ["sum"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, [None, 3]),
            helper.make_tensor_value_info("before", TensorProto.FLOAT, [1, 3]),
            helper.make_tensor_value_info("choice", TensorProto.BOOL, [1]),
        ],
        [
            helper.make_tensor_value_info("y", TensorProto.FLOAT, [None, 3]),
            helper.make_tensor_value_info("after", TensorProto.FLOAT, [None, None]),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    assert dimensions(imported(model.SerializeToString(), H)) == [(1, 3)] * 3


def test_states_of_the_file_may_be_named_again() -> None:
    given = np.array([7, 8, 9], np.float32)
    model = imported(running_sum(), StatePair("sum", "sum/after", given))
    assert [state.name for state in model.states] == ["sum"]
    np.testing.assert_array_equal(model.states[0].initial, given)


def two_types() -> bytes:
    """``after`` has other elements than ``before``."""
    nodes = [
        helper.make_node("Add", ["x", "before"], ["y"]),
        helper.make_node("Cast", ["y"], ["after"], to=TensorProto.INT32),
    ]
    return onnx_model(nodes, {"x": (1, 3), "before": (1, 3)}, ["y", "after"]).SerializeToString()


@pytest.mark.parametrize(
    ("content", "pairs", "message"),
    [
        (running_total(), [StatePair("h", "after")], "a state has the input 'h', expected one of"),
        (running_total(), [StatePair("before", "h")], "a state has the output 'h', expected one of"),
        (running_total(), [H, H], "a state has the input 'before'"),
        (running_total(), [H, StatePair("x", "y")], "all outputs are states"),
        (two_types(), [H], "has elements of float32 and int32, expected one type"),
        (
            running_total(),
            [StatePair("before", "after", np.ones((1, 3)))],
            "begins with float64, the model has float32",
        ),
        (running_total(), [StatePair("before", "after", dimensions=(2, 3))], r"\[2, 3\]"),
    ],
)
def test_states_that_do_not_fit_are_refused(content: bytes, pairs: list[StatePair], message: str) -> None:
    with pytest.raises(InvalidModel, match=message):
        imported(content, *pairs)
