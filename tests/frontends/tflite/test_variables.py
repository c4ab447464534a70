"""Variables of TFLite files, which LiteRT's interpreter runs step by step as well."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from nnhal.arrays import Array
from nnhal_frontends.errors import InvalidModel, UnsupportedNode
from nnhal_frontends.tflite import import_tflite
from tests.support.drawn_values import random
from tests.support.onnx_models import operations
from tests.support.tflite_files import Spec, TfliteFile, booleans, floats, int8, int32
from tests.support.tflite_operators import check_steps
from tests.support.tflite_variables import FileWithVariables, Initial, running_sum

ADD = ("AddOptions", dict[str, Any]())


def steps(count: int, *shape: int) -> list[Mapping[str, Array]]:
    """Inputs ``x`` of some runs."""
    return [{"x": random(*shape, seed=step)} for step in range(count)]


def names(imported: Any) -> tuple[list[str], list[str], list[str]]:
    return (
        [tensor.name for tensor in imported.inputs],
        [tensor.name for tensor in imported.outputs],
        [state.name for state in imported.states],
    )


def test_a_variable_that_is_read_and_then_assigned_is_a_state() -> None:
    imported = check_steps(running_sum(), steps(4, 3))
    assert names(imported) == (["x"], ["y"], ["sum"])
    np.testing.assert_array_equal(imported.states[0].initial, np.array([10, 20, 30], np.float32))


def test_a_model_with_variables_is_not_one_operation() -> None:
    imported = import_tflite(running_sum(), as_one=True)
    assert names(imported) == (["x"], ["y"], ["sum"])
    assert operations(imported) == ["ADD", "CAST"]


def test_a_variable_that_nothing_assigns_is_a_constant() -> None:
    file = FileWithVariables()
    file.initialise({"weights": np.array([1, 2, 3], np.float32)})
    x = file.input("x", floats(3))
    (y,) = file.operator("ADD", [file.read(file.handle("weights"), floats(3)), x], {"y": floats(3)}, ADD)
    assert names(check_steps(file.build(y), steps(2, 3))) == (["x"], ["y"], [])


def test_a_variable_that_is_assigned_before_it_is_read_needs_no_state() -> None:
    file = FileWithVariables()
    x, handle = file.input("x", floats(3)), file.handle("copy")
    file.assign(handle, x)
    (y,) = file.operator("ADD", [file.read(handle, floats(3)), x], {"y": floats(3)}, ADD)
    assert names(check_steps(file.build(y), steps(2, 3))) == (["x"], ["y"], [])


def test_values_that_pass_from_variable_to_variable() -> None:
    """A delay of two runs: what is assigned is an input of the model, or the state of another variable."""
    file = FileWithVariables()
    file.initialise({"last": np.full(3, 5, np.float32), "before": np.full(3, 7, np.float32)})
    x, last, before = file.input("x", floats(3)), file.handle("last"), file.handle("before")
    second, first = file.read(before, floats(3)), file.read(last, floats(3))
    file.assign(before, first)
    file.assign(last, x)
    (y,) = file.operator("ADD", [second, x], {"y": floats(3)}, ADD)
    imported = check_steps(file.build(y, second), steps(5, 3))
    assert names(imported)[2] == ["before", "last"]


def test_a_value_that_is_read_again_after_it_was_assigned() -> None:
    file = FileWithVariables()
    file.initialise({"v": np.zeros(3, np.float32)})
    x, handle = file.input("x", floats(3)), file.handle("v")
    (first,) = file.operator("ADD", [file.read(handle, floats(3)), x], {"first": floats(3)}, ADD)
    file.assign(handle, first)
    (second,) = file.operator("MUL", [file.read(handle, floats(3)), x], {"second": floats(3)}, ("MulOptions", {}))
    file.assign(handle, second)
    check_steps(file.build(first, second), steps(4, 3))


def test_two_variables_that_get_the_same_value() -> None:
    file = FileWithVariables()
    file.initialise({"a": np.zeros(3, np.float32), "b": np.ones(3, np.float32)})
    x, a, b = file.input("x", floats(3)), file.handle("a"), file.handle("b")
    (total,) = file.operator("ADD", [file.read(a, floats(3)), x], {"total": floats(3)}, ADD)
    (y,) = file.operator("ADD", [file.read(b, floats(3)), total], {"y": floats(3)}, ADD)
    file.assign(a, total)
    file.assign(b, total)
    check_steps(file.build(y), steps(4, 3))


def test_a_variable_that_always_becomes_the_same() -> None:
    file = FileWithVariables()
    file.initialise({"first": np.ones(3, np.float32)})
    x, handle = file.input("x", floats(3)), file.handle("first")
    (y,) = file.operator("ADD", [file.read(handle, floats(3)), x], {"y": floats(3)}, ADD)
    file.assign(handle, file.constant(np.zeros(3, np.float32)))
    check_steps(file.build(y), steps(3, 3))


def test_a_window_over_a_stream() -> None:
    """As keyword spotters have it: the last values move up, and new ones come in at the end."""
    file = FileWithVariables()
    file.initialise({"window": np.zeros((1, 8, 2), np.float32)})
    x, handle = file.input("x", floats(1, 2, 2)), file.handle("window")
    begin, size = (file.constant(np.array(values, np.int32)) for values in ([0, 2, 0], [1, 6, 2]))
    window = file.read(handle, floats(1, 8, 2))
    kept = file.operator("SLICE", [window, begin, size], {"kept": floats(1, 6, 2)}, ("SliceOptions", {}))
    (y,) = file.operator("CONCATENATION", [*kept, x], {"y": floats(1, 8, 2)}, ("ConcatenationOptions", {"Axis": 1}))
    file.assign(handle, y)
    check_steps(file.build(y), steps(6, 1, 2, 2))


@pytest.mark.parametrize("spec", [int8(4), Spec((4,), np.uint8, 0.05, 130), int32(4)], ids=["int8", "uint8", "int32"])
def test_variables_of_other_types(spec: Spec) -> None:
    file = FileWithVariables()
    file.initialise({"v": lambda file: file.constant(np.array([1, 2, 3, 4]), spec)})
    x, handle = file.input("x", spec), file.handle("v")
    (y,) = file.operator("MAXIMUM", [file.read(handle, spec), x], {"y": spec}, ("MaximumMinimumOptions", {}))
    file.assign(handle, y)
    given = [{"x": np.array(values, spec.element_type)} for values in ([0, 5, 0, 0], [9, 0, 0, 0], [0, 0, 0, 0])]
    check_steps(file.build(y), given)


def filled(file: TfliteFile) -> int:
    """Ones, as zeros_like and ones_like of TensorFlow become."""
    dims, value = file.constant(np.array([3], np.int32)), file.constant(np.float32(1))
    return file.operator("FILL", [dims, value], {"filled": floats(3)}, ("FillOptions", {}))[0]


@pytest.mark.parametrize("initial", [np.array([4, 5, 6], np.float32), filled], ids=["constant", "computed"])
def test_what_variables_begin_with(initial: Initial) -> None:
    file = FileWithVariables()
    file.initialise({"v": initial})
    x, handle = file.input("x", floats(3)), file.handle("v")
    (y,) = file.operator("ADD", [file.read(handle, floats(3)), x], {"y": floats(3)}, ADD)
    file.assign(handle, y)
    check_steps(file.build(y), steps(3, 3))


def refusal(file: TfliteFile, outputs: Sequence[int]) -> str:
    with pytest.raises(UnsupportedNode) as caught:
        import_tflite(file.build(*outputs))
    return f"{caught.value.op_type}: {caught.value.reason}"


def test_variables_without_a_first_value_are_refused() -> None:
    file = FileWithVariables()
    x, handle = file.input("x", floats(3)), file.handle("v")
    (y,) = file.operator("ADD", [file.read(handle, floats(3)), x], {"y": floats(3)}, ADD)
    file.assign(handle, y)
    assert refusal(file, [y]) == "READ_VARIABLE: variable 'v' is read before it has a value"


def test_first_values_that_cannot_be_computed_are_refused() -> None:
    def softmax(file: TfliteFile) -> int:
        ones = file.constant(np.ones((1, 3), np.float32))
        return file.operator("SOFTMAX", [ones], {"z": floats(1, 3)}, ("SoftmaxOptions", {"Beta": 1.0}))[0]

    file = FileWithVariables()
    file.initialise({"v": softmax})
    y = file.read(file.handle("v"), floats(1, 3))
    assert refusal(file, [y]) == "SOFTMAX: it initialises variables"


def test_first_values_that_are_too_large_are_refused() -> None:
    def huge(file: TfliteFile) -> int:
        dims, value = file.constant(np.array([1 << 20, 1 << 10], np.int32)), file.constant(np.float32(1))
        return file.operator("FILL", [dims, value], {"filled": floats(1 << 20, 1 << 10)}, ("FillOptions", {}))[0]

    file = FileWithVariables()
    file.initialise({"v": huge})
    y = file.read(file.handle("v"), floats(1 << 20, 1 << 10))
    assert refusal(file, [y]) == "FILL: a value of 1073741824 elements"


def test_variables_in_subgraphs_of_control_flow_are_refused() -> None:
    file = FileWithVariables()
    branches = []
    for _ in range(2):
        file.input("x", floats(3))
        branches.append(file.subgraph(file.read(file.handle("v"), floats(3))))
    x, condition = file.input("x", floats(3)), file.input("c", booleans(1))
    options = ("IfOptions", {"ThenSubgraphIndex": branches[0], "ElseSubgraphIndex": branches[1]})
    y = file.operator("IF", [condition, x], {"y": floats(3)}, options)
    assert refusal(file, y) == "VAR_HANDLE: variables in a subgraph of IF or WHILE"


def test_a_value_of_another_shape_is_refused() -> None:
    file = FileWithVariables()
    file.initialise({"v": np.zeros(3, np.float32)})
    x, handle = file.input("x", floats(4)), file.handle("v")
    y = file.read(handle, floats(3))
    file.assign(handle, x)
    assert refusal(file, [y]) == "ASSIGN_VARIABLE: variable 'v' is assigned [4] of another type, quantisation or shape"


def test_a_handle_that_is_none_is_refused() -> None:
    file = FileWithVariables()
    x = file.input("x", floats(3))
    assert refusal(file, [file.read(x, floats(3))]) == "READ_VARIABLE: its first input is no handle of a variable"


def test_a_call_of_a_subgraph_that_is_not_there_is_refused() -> None:
    file = FileWithVariables()
    x = file.input("x", floats(3))
    file.operator("CALL_ONCE", [], {}, ("CallOnceOptions", {"InitSubgraphIndex": 5}))
    with pytest.raises(InvalidModel, match="refers to subgraph 5, the file has 1 subgraphs"):
        import_tflite(file.build(x))
