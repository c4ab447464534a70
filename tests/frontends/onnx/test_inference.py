"""The dimensions that a model computes count, whatever it declares."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnxruntime import InferenceSession
from onnxruntime.capi.onnxruntime_pybind11_state import Fail, InvalidGraph

from nnhal_frontends.errors import InvalidModel
from nnhal_frontends.onnx import import_onnx
from tests.support.onnx_models import by_cpu_ref

Sizes = Sequence[int | str]


def model(
    nodes: Sequence[onnx.NodeProto], given: Sizes, declared: Sizes, **constants: Sequence[int]
) -> onnx.ModelProto:
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, sizes) for n, sizes in (("x", given), ("y", declared)))
    initializers = [numpy_helper.from_array(np.array(value, np.int64), name) for name, value in constants.items()]
    graph = helper.make_graph(nodes, "g", [x], [y], initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


RELU = [helper.make_node("Relu", ["x"], ["y"])]
ROWS = [
    helper.make_node("Shape", ["x"], ["shape"]),
    helper.make_node("Gather", ["shape", "zero"], ["rows"]),
    helper.make_node("Mul", ["rows", "one"], ["times"]),
    helper.make_node("Concat", ["times", "rest"], ["target"], axis=0),
    helper.make_node("Reshape", ["x", "target"], ["y"]),
]


@pytest.mark.parametrize("declared", [[4], [3, 1], []])
def test_a_declared_shape_that_inference_contradicts_is_dropped(declared: Sizes) -> None:
    imported = import_onnx(model(RELU, [3], declared))
    assert imported.outputs[0].shape == (3,)
    assert [warning.split(" is declared")[0] for warning in imported.warnings] == ["output 'y'"]


def test_a_name_for_a_dimension_that_is_known_is_no_contradiction() -> None:
    imported = import_onnx(model(RELU, [3], ["n"]))
    assert (imported.outputs[0].shape, imported.warnings) == ((3,), ())


def typed(node: onnx.NodeProto, computed: int, declared: int, inner: int = TensorProto.UNDEFINED) -> onnx.ModelProto:
    """A node of ``x`` and ``b``, and a sum of its result, with what is declared of all of them."""
    x, b, y = (helper.make_tensor_value_info(*given, [3]) for given in (("x", 1), ("b", computed), ("y", declared)))
    values = [helper.make_tensor_value_info("h", inner, [3])] if inner else []
    graph = helper.make_graph([node, helper.make_node("Neg", ["h"], ["y"])], "g", [x, b], [y], value_info=values)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def branch(name: str, operator: str, kind: int, **attributes: Any) -> onnx.GraphProto:
    made = helper.make_tensor_value_info(name, kind, [3])
    return helper.make_graph([helper.make_node(operator, ["x"], [name], **attributes)], name, [], [made])


@pytest.mark.parametrize("as_one", [True, False])
@pytest.mark.parametrize(
    ("given", "message"),
    [
        *(
            (
                typed(helper.make_node("If", ["b"], ["h"], then_branch=ours, else_branch=theirs), 9, 1),
                r"\(If\): Mismatched tensor element type: inferred=(int64|float) declared=(int64|float)",
            )
            for ours, theirs in permutations(
                [branch("t", "Relu", 1), branch("e", "Cast", TensorProto.INT64, to=TensorProto.INT64)]
            )
        ),
        (
            typed(helper.make_node("Relu", ["x"], ["h"]), 1, 6),
            r"node 'Neg_1' .*computes FLOAT, declared as INT32",
        ),
        (typed(helper.make_node("Relu", ["x"], ["h"]), 1, 1, 6), r"\(Relu\): computes FLOAT, declared as INT32"),
        (typed(helper.make_node("Cast", ["x"], ["h"], to=7), 1, 6), r"computes INT64, declared as INT32"),
        (typed(helper.make_node("Add", ["x", "b"], ["h"]), 6, 1), r"\(Add\): B has inconsistent type tensor\(int32\)"),
        (typed(helper.make_node("Gather", ["x", "b"], ["h"]), 1, 1), r"indices typestr: Tind, has unsupported type"),
    ],
)
def test_types_that_contradict_one_another_are_refused(given: onnx.ModelProto, message: str, as_one: bool) -> None:
    with pytest.raises((Fail, InvalidGraph)):
        InferenceSession(given.SerializeToString(), providers=["CPUExecutionProvider"])
    with pytest.raises(InvalidModel, match=message):
        import_onnx(given, as_one=as_one)


def test_a_declared_rank_that_the_target_of_a_reshape_contradicts_is_dropped() -> None:
    declared = model(ROWS, ["n", 6], [1, "length"], zero=[0], one=[1], rest=[2, 3])
    imported = import_onnx(declared)
    assert len(imported.outputs[0].shape) == 3
    assert "[1, length]" in imported.warnings[0]
    x = np.arange(12, dtype=np.float32).reshape(2, 6)
    (y,) = by_cpu_ref(imported, {"x": x})
    np.testing.assert_array_equal(y, x.reshape(2, 2, 3))


def test_what_is_declared_fills_what_cannot_be_inferred() -> None:
    assert import_onnx(model(ROWS, ["n", 6], ["n", 2, 3], zero=[0], one=[1], rest=[2, 3])).outputs[0].shape == (0, 2, 3)
    loose = model([helper.make_node("Reshape", ["x", "target"], ["y"])], [6], [2, 3])
    loose.graph.input.append(helper.make_tensor_value_info("target", TensorProto.INT64, ["rank"]))
    assert import_onnx(loose).outputs[0].shape == (2, 3)


@pytest.mark.parametrize("written", [-1, "?", "-1"])
def test_dimensions_that_exporters_write_for_unknown_ones_are_unknown_and_not_equal(written: int | str) -> None:
    nodes = [helper.make_node("Transpose", ["x"], ["y"], perm=[1, 0])]
    imported = import_onnx(model(nodes, [written, written], [written, written]))
    assert imported.inputs[0].shape == imported.outputs[0].shape == (0, 0)
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    (y,) = by_cpu_ref(imported, {"x": x})
    np.testing.assert_array_equal(y, x.T)


def test_a_false_shape_of_an_inner_tensor_does_not_count() -> None:
    inner = model([helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Tanh", ["a"], ["y"])], [2, 3], [2, 3])
    inner.graph.value_info.append(helper.make_tensor_value_info("a", TensorProto.FLOAT, [6]))
    imported = import_onnx(inner)
    assert imported.outputs[0].shape == (2, 3)


ROW_LABELS = [
    helper.make_node(
        "LinearClassifier",
        ["x"],
        ["label", "scores"],
        domain="ai.onnx.ml",
        coefficients=[1.0, -1.0, -1.0, 1.0],
        intercepts=[0.0, 0.0],
        classlabels_ints=[0, 1],
    ),
    helper.make_node("Identity", ["label"], ["y"]),
]


@pytest.mark.parametrize("domain", [1, 3, 5])
def test_one_row_of_labels_that_a_model_of_any_number_of_rows_declares_does_not_count(domain: int) -> None:
    """As onnxmltools has it in what it makes of LightGBM's classifiers."""
    labelled = model(ROW_LABELS, ["rows", 2], [1])
    labelled.graph.output[0].type.tensor_type.elem_type = TensorProto.INT64
    labelled.opset_import.append(helper.make_opsetid("ai.onnx.ml", domain))
    imported = import_onnx(labelled)
    assert imported.outputs[0].shape == (0,)
    (warning,) = imported.warnings
    assert "output 'y' is declared as [1], but the model computes [rows]" in warning


def test_one_row_of_what_nobody_can_infer_is_open_if_the_rows_of_an_input_are() -> None:
    unknown = [helper.make_node("Mystery", ["x"], ["y"], domain="of.somebody")]
    cases: list[tuple[Sizes, Sizes, Sizes]] = [
        (["n", 2], [1, 2], (0, 2)),
        ([1, 2], [1, 2], (1, 2)),
        (["n", 2], [4, 2], (4, 2)),
    ]
    for given, declared, expected in cases:
        mystery = model(unknown, given, declared)
        mystery.opset_import.append(helper.make_opsetid("of.somebody", 1))
        imported = import_onnx(mystery)
        assert imported.outputs[0].shape == expected
        assert len(imported.warnings) == (expected[0] == 0)


def test_an_output_whose_type_nobody_can_infer_is_a_value_of_unknown_type() -> None:
    mystery = helper.make_node("Mystery", ["x"], ["between"], domain="of.somebody")
    untyped = model([mystery, helper.make_node("Relu", ["between"], ["y"])], [3], [])
    untyped.opset_import.append(helper.make_opsetid("of.somebody", 1))
    untyped.graph.output[0].ClearField("type")
    (output,) = import_onnx(untyped).outputs
    assert output.element_type.hasobject
    assert output.kind == "a value of unknown type"


def node(operator: str, outputs: int = 1, **attributes: Any) -> onnx.NodeProto:
    made = [f"y{index}" if index else "y" for index in range(outputs)]
    return helper.make_node(operator, ["x"], made, "it", **attributes)


UNSOUND = [
    (node("Einsum", equation="i..j"), r"node 'it' \(Einsum\): equation is 'i\.\.j', expected letters"),
    (node("Einsum", equation="i-j"), "equation is 'i-j'"),
    (node("Split", 3, num_outputs=2), r"num_outputs is 2, expected 3, the number of its outputs"),
    (node("Split", 2, num_outputs=2**31), r"num_outputs is 2147483648, expected 2"),
    (node("Softmax", axis=2**31), "axis is 2147483648, expected at most 64"),
    (helper.make_node("QuantizeLinear", ["x", "x"], ["y"], block_size=2**62), f"block_size is {2**62}, expected 0 to"),
    (helper.make_node("GatherND", ["x", "x"], ["y"], batch_dims=-2), "batch_dims is -2, expected a number of axes"),
    (node("RandomNormalLike", dtype=-1), "dtype is -1, expected one of ONNX's element types"),
]


@pytest.mark.parametrize("as_one", [True, False])
@pytest.mark.parametrize(("unsound", "message"), UNSOUND)
def test_attributes_that_shape_inference_does_not_survive_are_refused(
    unsound: onnx.NodeProto, message: str, as_one: bool
) -> None:
    given = model([unsound], [4, 4], [4, 4])
    given.opset_import[0].version = 21
    with pytest.raises(InvalidModel, match=message):
        import_onnx(given, as_one=as_one)


def test_a_function_with_too_many_inputs_is_refused() -> None:
    given = model([helper.make_node("F", ["x", "x"], ["y"], domain="own")], [4], [4])
    given.opset_import.append(helper.make_opsetid("own", 1))
    given.functions.append(helper.make_function("own", "F", ["x"], ["y"], RELU, given.opset_import))
    with pytest.raises(InvalidModel, match="called otherwise than it is defined: Number of actual parameters"):
        import_onnx(given)


@pytest.mark.parametrize(("kind", "shape"), [(TensorProto.INT32, [3]), (TensorProto.FLOAT, [9])])
@pytest.mark.parametrize("as_one", [True, False])
def test_a_constant_of_another_type_or_shape_than_the_input_of_its_name_is_refused(
    kind: int, shape: Sizes, as_one: bool
) -> None:
    given = model([helper.make_node("Add", ["x", "k"], ["y"])], [3], [3])
    given.graph.input.append(helper.make_tensor_value_info("k", kind, shape))
    given.graph.initializer.append(numpy_helper.from_array(np.ones(3, np.float32), "k"))
    with pytest.raises(InvalidModel, match="contradict one another"):
        import_onnx(given, as_one=as_one)


def test_factors_that_are_no_numbers_are_inferred_to_nothing() -> None:
    given = model([helper.make_node("Resize", ["x", "", "factors"], ["y"])], [2], [2])
    given.graph.initializer.append(numpy_helper.from_array(np.array([np.nan], np.float32), "factors"))
    assert import_onnx(given, as_one=True).outputs[0].shape


@pytest.mark.parametrize(("equation", "shapes"), [("ij,ij->j", [(2, 1), (2, 3)]), ("ij,jk->ik", [(2, 3), (1, 4)])])
def test_a_length_of_one_is_that_of_the_other_inputs_of_einsum(equation: str, shapes: Sequence[Sequence[int]]) -> None:
    given = model([helper.make_node("Einsum", ["x", "z"], ["y"], equation=equation)], shapes[0], ["n"])
    given.graph.output[0].type.tensor_type.ClearField("shape")
    given.graph.input.append(helper.make_tensor_value_info("z", TensorProto.FLOAT, shapes[1]))
    feeds = {name: np.ones(shape, np.float32) for name, shape in zip("xz", shapes, strict=True)}
    wanted: Any = InferenceSession(given.SerializeToString()).run(None, feeds)[0]
    np.testing.assert_array_equal(by_cpu_ref(import_onnx(given), feeds)[0], wanted)


def test_half_of_the_frequencies_are_inferred_unless_both_sides_are_wanted() -> None:
    given = model([helper.make_node("STFT", ["x", "step", "", "length"], ["y"])], [1, 32, 1], [1, 3, 9, 2])
    sizes = {"step": 8, "length": 16}
    given.graph.initializer.extend(numpy_helper.from_array(np.array(v, np.int64), name) for name, v in sizes.items())
    imported = import_onnx(given)
    assert (imported.outputs[0].shape, imported.warnings) == ((1, 3, 9, 2), ())


@pytest.mark.parametrize("kept", ["type", "nothing"])
def test_an_output_needs_no_declared_shape_or_type(kept: str) -> None:
    bare = model(RELU, [3, 4], [])
    if kept == "type":
        bare.graph.output[0].type.tensor_type.ClearField("shape")
    else:
        bare.graph.output[0].ClearField("type")
    imported = import_onnx(bare)
    assert imported.outputs[0].shape == (3, 4)
    assert imported.outputs[0].element_type == np.float32
    (result,) = by_cpu_ref(imported, {"x": np.full((3, 4), -1, np.float32)})
    np.testing.assert_array_equal(result, np.zeros((3, 4), np.float32))


@pytest.mark.parametrize(
    "attributes",
    [
        {"ceil_mode": 1, "kernel_shape": [1, 1], "strides": [2, 2]},
        {"ceil_mode": 1, "kernel_shape": [3, 2], "strides": [2, 3], "pads": [1, 0, 0, 1]},
        {"auto_pad": "SAME_UPPER", "kernel_shape": [2, 2], "dilations": [2, 2]},
    ],
    ids=str,
)
def test_pools_have_the_dimensions_that_are_computed(attributes: dict[str, Any]) -> None:
    nodes = [
        helper.make_node("MaxPool", ["x"], ["p"], **attributes),
        helper.make_node("AveragePool", ["p"], ["q"], ceil_mode=1, kernel_shape=[1, 1], strides=[2, 2]),
        helper.make_node("Relu", ["q"], ["y"]),
    ]
    values = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in (("x", [1, 1, 8, 8]), ("y", None))
    ]
    graph = helper.make_graph(nodes, "pools", values[:1], values[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    x = np.arange(64, dtype=np.float32).reshape(1, 1, 8, 8)
    imported = import_onnx(model)
    wanted: Any = InferenceSession(model.SerializeToString()).run(None, {"x": x})[0]
    assert imported.outputs[0].shape == np.shape(wanted)
    np.testing.assert_array_equal(by_cpu_ref(imported, {"x": x})[0], wanted)
