"""Operators of ONNX over their attributes and optional inputs, as cpu_ref computes or refuses them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import onnx
import onnxruntime
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from nnhal.errors import HalError
from nnhal_devices.cpu_ref.onnx_operators import OPERATORS
from nnhal_devices.cpu_ref.onnx_refusals import refusal
from nnhal_frontends.onnx import import_onnx
from tests.support.onnx_models import by_cpu_ref

Values = NDArray[Any] | None
_RANDOM = np.random.default_rng(0)


class Case(NamedTuple):
    operator: str
    inputs: Sequence[Values]
    outputs: int
    opset: int
    attributes: dict[str, Any]


def case(operator: str, *inputs: Any, opset: int = 18, outputs: int = 1, **attributes: Any) -> Case:
    return Case(operator, [None if x is None else np.asarray(x) for x in inputs], outputs, opset, attributes)


def floats(*shape: int) -> NDArray[np.float32]:
    return _RANDOM.uniform(-1, 1, shape).astype(np.float32)


def integers(*values: int) -> NDArray[np.int64]:
    return np.array(values, np.int64)


def recurrent() -> list[Case]:
    cases = []
    for operator, gates, functions in (("RNN", 1, 1), ("GRU", 3, 2), ("LSTM", 4, 3)):
        outputs = 3 if operator == "LSTM" else 2
        for direction, count in (("forward", 1), ("reverse", 1), ("bidirectional", 2)):
            weights = [floats(5, 2, 3), floats(count, gates * 4, 3) / 2, floats(count, gates * 4, 4) / 2]
            bias, lengths = floats(count, 2 * gates * 4), np.array([5, 2], np.int32)
            state, cell, peepholes = floats(count, 2, 4), floats(count, 2, 4), floats(count, 12)
            last = [cell, peepholes] if operator == "LSTM" else []
            uses: list[tuple[list[Values], dict[str, Any]]] = [
                ([], {}),
                ([bias, lengths], {}),
                ([bias, None, state, *last], {}),
                ([bias, lengths, state, *last], {}),
                ([bias], {"clip": 0.3}),
            ]
            for name, alpha, beta in (
                ("Relu", None, None),
                ("Sigmoid", None, None),
                ("LeakyRelu", 0.2, None),
                ("ThresholdedRelu", 0.3, None),
                ("ScaledTanh", 0.7, 0.9),
                ("HardSigmoid", 0.3, 0.4),
                ("Elu", 0.6, None),
                ("Softsign", None, None),
                ("Affine", 0.5, 0.1),
            ):
                named = {"activation_alpha": alpha, "activation_beta": beta}
                given = {key: [value] * functions * count for key, value in named.items() if value is not None}
                uses.append(([bias], {"activations": [name] * functions * count, **given}))
            if operator == "GRU":
                uses.append(([bias], {"linear_before_reset": 1}))
            if operator == "LSTM":
                uses.append(([bias], {"input_forget": 1}))
            cases += [
                case(operator, *weights, *more, opset=14, outputs=outputs, hidden_size=4, direction=direction, **given)
                for more, given in uses
            ]
    return cases


def pools() -> list[Case]:
    x, small = floats(1, 2, 6, 7), _RANDOM.integers(-100, 100, (1, 2, 6, 7)).astype(np.int8)
    uses: list[dict[str, Any]] = [
        {},
        {"pads": [1, 0, 1, 1]},
        {"strides": [2, 2], "ceil_mode": 1},
        {"strides": [3, 3], "ceil_mode": 1, "pads": [1, 1, 1, 1]},
        {"auto_pad": "SAME_UPPER", "strides": [2, 2]},
        {"auto_pad": "SAME_LOWER"},
        {"auto_pad": "VALID"},
        {"dilations": [2, 1]},
        {"storage_order": 1},
    ]
    of_floats = [case("MaxPool", x, outputs=2, kernel_shape=[3, 2], **use) for use in uses]
    alone = [case("MaxPool", each, kernel_shape=[2, 2], **use) for use in uses[:-1] for each in (x, small)]
    return [*of_floats, *alone, *(case("GlobalMaxPool", floats(1, 2, *shape)) for shape in ((5,), (4, 5), (3, 4, 5)))]


def others() -> list[Case]:
    boxes = np.array([[[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, 10, 1, 11]]], np.float32)
    scores, x = np.array([[[0.9, 0.75, 0.95]]], np.float32), floats(3, 4)
    words = np.array(["é", "naïve", "STOP", "stop", "É"], object)
    grid = floats(1, 3, 3, 2)
    regions = np.array([[0, 0, 3, 3], [-1, 1, 9, 2]], np.float32)
    positive = np.abs(floats(2, 3)) + 1
    reductions: list[tuple[list[Values], dict[str, Any]]] = [
        ([], {"keepdims": 0}),
        ([], {"keepdims": 1, "opset": 11}),
        ([integers()], {"noop_with_empty_axes": 1}),
    ]
    transposed: list[dict[str, Any]] = [
        {},
        {"strides": [2, 2], "output_padding": [1, 1]},
        {"pads": [1, 0, 1, 1]},
    ]
    stops: list[dict[str, Any]] = [{}, {"stopwords": ["STOP", "é"]}]
    return [
        *(
            case("BatchNormalization", floats(2, 3, 4), *floats(3, 3), floats(3) + 2, opset=opset, epsilon=epsilon)
            for opset in (7, 9, 14, 15)
            for epsilon in (1e-5, 0.25)
        ),
        *(
            case("StringSplit", np.array(texts, object), outputs=2, opset=20, **use)
            for texts in ("a b", ["", " ", "  a  b ", "as s", "ss"], [[""]], [])
            for use in ({}, {"delimiter": ""}, {"delimiter": "s"}, {"maxsplit": 1}, {"delimiter": " ", "maxsplit": 0})
        ),
        *(
            case(
                "RegexFullMatch",
                np.array([["aaa", "12", "É"], ["\u0663", "ab", ""]], object),
                opset=20,
                pattern=pattern,
            )
            for pattern in ("a+", r"\d+", r"\w*", "(?i)AB|é", ".", "^a*$")
        ),
        *(
            case("RoiAlign", floats(2, 3, 6, 7), regions, integers(0, 1), opset=opset, mode=mode, output_width=2)
            for opset in (10, 16)
            for mode in ("avg", "max")
        ),
        *(case("NonZero", value) for value in (np.float32(2), np.float32(0), x)),
        *(case("Dropout", x, opset=opset, outputs=2) for opset in (7, 10, 12, 13)),
        case("NonMaxSuppression", boxes, scores, np.int64(2), np.float32(0.5), np.float32(0), opset=11),
        *(case("Pad", x, integers(-1, 2, 1, -1), opset=19, mode=mode) for mode in ("constant", "reflect", "edge")),
        case("Pad", x, integers(-1, 2), np.float32(7), integers(-1), opset=19),
        case("Pad", x, opset=2, pads=[-1, 0, 0, 2], value=2.0),
        *(
            case(operator, data, *axes, **given)
            for operator in ("ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare")
            for data in (np.float32(2), positive, (positive * 3).astype(np.int32))
            for axes, given in reductions
            if data.dtype.kind == "f" or operator != "ReduceLogSumExp"
        ),
        *(
            case("QuantizeLinear", floats(2, 3) * 9, np.float32(0.1), kind(3), opset=21, **given)
            for kind in (np.int8, np.uint8, np.int16, np.uint16)
            for given in ({}, {"output_dtype": helper.np_dtype_to_tensor_dtype(np.dtype(kind))})
        ),
        case("QuantizeLinear", floats(2, 3), np.float32(0.1), opset=21, output_dtype=TensorProto.INT16),
        case("QuantizeLinear", floats(4, 3), np.abs(floats(2, 3)), opset=21, axis=0, block_size=2),
        *(
            case("GatherElements", floats(3, 4, 2), integers(0, -1, 1, 0).reshape(2, 2, 1), axis=axis)
            for axis in (0, 1, -1)
        ),
        *(
            case(f"Reduce{name}", data, *axes, **given, opset=20)
            for name in ("Max", "Min")
            for data in (floats(2, 3), np.array([[5, -7]], np.int8), np.array([[True, False]]))
            for axes, given in (
                ([], {"keepdims": 0}),
                ([integers(-1)], {}),
                ([integers()], {"noop_with_empty_axes": 1}),
            )
        ),
        case("ReduceLogSumExp", positive, opset=11, axes=[-1]),
        case("ReduceLogSumExp", np.array([[-np.inf, -np.inf], [np.nan, 1], [np.inf, 1]], np.float32), integers(1)),
        *(
            case("ConvTranspose", floats(2, 4, 4, 4), floats(4, 3, 3, 3), floats(6), opset=11, group=2, **given)
            for given in transposed
        ),
        *(case("GridSample", floats(1, 2, 4, 5), grid, opset=16, mode=mode) for mode in ("bilinear", "bicubic")),
        *(
            case("NonMaxSuppression", boxes, scores, *given)
            for given in (
                [],
                [None, np.array([0.5], np.float32)],
                [integers(2)],
                [integers(9), np.array([0.5], np.float32)],
            )
        ),
        case("OneHot", integers(0, 2, 5, -1, -4), integers(3), np.array([0, 5], np.float32)),
        *(
            case("DequantizeLinear", np.array([[1, 2], [0, 120]], kind), np.float32(0.3), kind(3), opset=opset)
            for opset in (10, 13, 19, 21)
            for kind in (np.uint8, np.int8)
        ),
        *(case("StringNormalizer", words, case_change_action="NONE", is_case_sensitive=1, **given) for given in stops),
        *(
            case(operator, floats(2, 3, 4), opset=opset, **given)
            for operator in ("Softmax", "LogSoftmax", "Hardmax")
            for opset in (1, 11, 13)
            for given in ({}, {"axis": 0}, {"axis": 1})
        ),
        *(case("LpNormalization", floats(2, 3), axis=axis, p=p) for axis in (0, 1) for p in (1, 2)),
        case("LRN", floats(2, 5, 3, 3), size=3, alpha=0.01, beta=0.6, bias=1.5),
    ]


def model_of(given: Case) -> onnx.ModelProto:
    names = ["" if x is None else f"i{index}" for index, x in enumerate(given.inputs)]
    values = [
        helper.make_tensor_value_info(
            name, TensorProto.STRING if x.dtype == object else helper.np_dtype_to_tensor_dtype(x.dtype), x.shape
        )
        for name, x in zip(names, given.inputs, strict=True)
        if x is not None
    ]
    outputs = [f"o{index}" for index in range(given.outputs)]
    node = helper.make_node(given.operator, names, outputs, **given.attributes)
    graph = helper.make_graph([node], "g", values, [onnx.ValueInfoProto(name=name) for name in outputs])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", given.opset)], ir_version=10)


@pytest.mark.parametrize("given", [*recurrent(), *pools(), *others()], ids=lambda c: f"{c.operator}-{c.opset}")
def test_results_are_those_of_onnx_runtime(given: Case) -> None:
    model = model_of(given)
    assert refusal(model) is None
    feeds = {f"i{index}": x for index, x in enumerate(given.inputs) if x is not None}
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    with np.errstate(all="ignore"):
        results: Any = ReferenceEvaluator(model, new_ops=[*OPERATORS]).run(None, feeds)
    wanted: list[Any] = [*session.run(None, feeds)]
    for got, expected in zip(results, wanted, strict=True):
        assert got.dtype == expected.dtype
        if expected.dtype.kind == "f":
            np.testing.assert_allclose(got, expected, 1e-4, 1e-5, strict=True)
        else:
            np.testing.assert_array_equal(got, expected, strict=True)


def of_values(*nodes: onnx.NodeProto) -> onnx.ModelProto:
    """A model from two arrays of floats, x and z, to a value y."""
    given = [helper.make_tensor_value_info(*each) for each in (("x", 1, [2]), ("z", 1, [3]), ("at", 7, []))]
    graph = helper.make_graph(nodes, "g", given, [onnx.ValueInfoProto(name="y")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)


SEQUENCE = helper.make_node("SequenceConstruct", ["x", "x"], ["s"])
NOTHING = helper.make_node("Optional", [], ["o"], type=helper.make_tensor_type_proto(1, [2]))
SOMETHING = helper.make_node("Optional", ["x"], ["o"])


@pytest.mark.parametrize(
    ("nodes", "place"),
    [
        *(([SEQUENCE, helper.make_node("SequenceInsert", ["s", "z", "at"], ["y"])], place) for place in range(-2, 3)),
        ([SEQUENCE, helper.make_node("SequenceInsert", ["s", "z"], ["y"])], 0),
        ([SOMETHING, helper.make_node("OptionalGetElement", ["o"], ["y"])], 0),
        ([SOMETHING, helper.make_node("OptionalHasElement", ["o"], ["y"])], 0),
        ([NOTHING, helper.make_node("OptionalHasElement", ["o"], ["y"])], 0),
    ],
    ids=str,
)
def test_sequences_and_optional_values_are_those_of_onnx_runtime(nodes: Sequence[onnx.NodeProto], place: int) -> None:
    model = of_values(*nodes)
    feeds = {"x": floats(2), "z": floats(3), "at": np.array(place, np.int64)}
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (wanted,), (result,) = session.run(None, feeds), ReferenceEvaluator(model, new_ops=[*OPERATORS]).run(None, feeds)
    pairs = zip(result, wanted, strict=True) if isinstance(wanted, list) else [(result, wanted)]
    for got, expected in pairs:
        np.testing.assert_array_equal(got, expected, strict=True)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (case("ReduceMax", np.array([[-3, -2]], np.float32), opset=20), [[-2]]),
        (case("ReduceMin", np.array([[3, 2]], np.float32), opset=20), [[2]]),
        (case("GlobalMaxPool", np.array([[[-3, -2]]], np.float32), opset=22), [[[-2]]]),
        (case("MaxPool", np.array([[[-3, -2]]], np.float32), opset=22, kernel_shape=[2]), [[[-2]]]),
        (case("Hardmax", np.array([[-3, -2]], np.float32)), [[0, 1]]),
    ],
    ids=lambda value: value.operator if isinstance(value, Case) else "",
)
def test_bfloat16_is_a_float(given: Case, expected: list[Any]) -> None:
    kind = helper.tensor_dtype_to_np_dtype(TensorProto.BFLOAT16)
    given = given._replace(inputs=[None if x is None else x.astype(kind) for x in given.inputs])
    results: Any = ReferenceEvaluator(model_of(given), new_ops=[*OPERATORS]).run(None, {"i0": given.inputs[0]})
    assert results[0].dtype == kind
    assert results[0].tolist() == expected


def test_cases_of_letters_need_no_locale() -> None:
    model = model_of(case("StringNormalizer", np.array(["é", "naïve"], object), case_change_action="UPPER"))
    results: Any = ReferenceEvaluator(model, new_ops=[*OPERATORS]).run(None, {"i0": np.array(["é", "naïve"], object)})
    assert results[0].tolist() == ["É", "NAÏVE"]


@pytest.mark.parametrize(
    ("given", "got"),
    [
        (
            case("ConvTranspose", floats(1, 1, 2, 2), floats(1, 1, 2, 2), output_shape=[4, 4], auto_pad="SAME_UPPER"),
            "auto_pad SAME_UPPER",
        ),
        (
            case("GridSample", floats(1, 1, 2, 2), floats(1, 1, 1, 2), mode="cubic", padding_mode="border"),
            "padding_mode border",
        ),
        (case("Unique", floats(2), sorted=0), "sorted 0"),
        (case("Upsample", floats(1, 1, 2, 2), floats(4), opset=9, mode="cubic"), "mode cubic"),
        (
            case("LSTM", floats(1, 1, 1), floats(1, 4, 1), floats(1, 4, 1), activations=["Cosine"] * 3),
            "activations ['Cosine'",
        ),
        (case("ReduceLogSumExp", integers(1, 2)), "input type 7"),
        (case("Cast", floats(2), to=TensorProto.STRING), "to 8"),
        (case("SVMClassifier", floats(2), post_transform="SOFTMAX"), "post_transform SOFTMAX"),
        (case("SVMRegressor", floats(2), post_transform="LOGISTIC"), "post_transform LOGISTIC"),
        (case("LinearClassifier", floats(2), classlabels_ints=[0, 1], intercepts=[0.5]), "intercepts [0.5]"),
        (case("LinearClassifier", floats(2), intercepts=[0.5, 1], post_transform="PROBIT"), "post_transform PROBIT"),
        (case("TreeEnsembleRegressor", floats(2), base_values=[0.5]), "base_values [0.5]"),
        (
            case("TreeEnsembleRegressor", floats(2), nodes_missing_value_tracks_true=[0, 1]),
            "nodes_missing_value_tracks_true [0",
        ),
        (case("TreeEnsembleRegressor", floats(2), post_transform="SOFTMAX"), "post_transform SOFTMAX"),
        (case("Scaler", integers(1)), "input type 7"),
        (case("Normalizer", integers(1), norm="L1"), "input type 7"),
        *(
            (case("RegexFullMatch", np.array(["a"], object), opset=20, pattern=pattern), f"pattern {pattern}")
            for pattern in ("[[:alpha:]]", r"\pL", r"a\z", "(?=a)", "a{,2}", r"(?i)\d", "(a")
        ),
    ],
    ids=lambda value: value.operator if isinstance(value, Case) else "",
)
def test_refusals_name_the_attribute(given: Case, got: str) -> None:
    refused = refusal(model_of(given))
    assert refused is not None
    assert f"{given.operator} with {got}" in refused.got


@pytest.mark.parametrize(
    ("given", "wrong"),
    [
        (case("GatherElements", floats(4, 2), [integers(-5, 0)]), "index -5, expected from -4 to 3"),
        (case("ScatterElements", floats(4, 2), [integers(1, 0)], floats(2, 2)), "updates of dimensions [2, 2]"),
        (case("ScatterND", floats(4, 2), [integers(0)], floats(2, 2)), "updates of dimensions [2, 2], expected [1, 2]"),
        (case("Reshape", floats(4, 2), integers(-2, 4)), "-2"),
        (case("Tile", floats(4, 2), integers(2)), "repeats"),
        (
            case("Slice", floats(4, 2), integers(0, 0), integers(2, 2), integers(0, -2)),
            "axes [0, -2], expected each once",
        ),
        (case("Pad", floats(4, 2), integers(-3, 0, -2, 0)), "pads -3 and -2 take more than the 4 elements of axis 0"),
        (case("TopK", floats(2), integers(-1), outputs=2), "k -1, expected from 0 to 2"),
        (case("Split", floats(4), integers(1, 2), outputs=2), "lengths [1, 2] of an axis of 4"),
        (case("Split", floats(4), integers(5, -1), outputs=2), "length 5, expected from 0 to 4"),
        (case("ReduceMax", floats(4, 2), integers(-3)), "axis -3, expected from -2 to 1"),
        (case("ReverseSequence", floats(2, 3), integers(1, 3, 1)), "length 3, expected from 0 to 2"),
        (case("OneHot", integers(1, 0), integers(0), floats(2)), "depth 0"),
        (case("MaxUnpool", floats(1, 1, 1, 1), [[[integers(-1)]]], kernel_shape=[2, 2]), "index -1"),
        (
            case("RoiAlign", floats(1, 1, 2, 2), floats(1, 4), integers(-1), output_height=1),
            "batch index -1, expected from 0 to 0",
        ),
        (
            case(
                "RNN", floats(2, 1, 1), floats(1, 1, 1), floats(1, 1, 1), None, np.array([3], np.int32), hidden_size=1
            ),
            "length 3, expected from 0 to 2",
        ),
        (case("Resize", floats(2, 2), None, np.array([1, 0], np.float32)), "scale 0.0, expected one above 0"),
        (
            case("NonMaxSuppression", floats(1, 2, 4), floats(1, 1, 2), integers(1), np.array([2], np.float32)),
            "iou_threshold 2.0, expected from 0 to 1",
        ),
        (case("STFT", floats(1, 8, 1), np.array(0), None, np.array(4)), "frame_step 0"),
        (case("HannWindow", np.array(-1)), "size -1"),
        (case("AffineGrid", floats(1, 2, 3), integers(2, 1, 2, 2), opset=20), "a batch of [2], expected [1]"),
        (case("GridSample", floats(1, 1, 2, 2), floats(2, 1, 1, 2), opset=20), "a batch of [2], expected [1]"),
        (
            case("RotaryEmbedding", floats(1, 1, 2, 4), floats(5, 2), floats(5, 2), [integers(0, -1)], opset=23),
            "position -1, expected from 0 to 4",
        ),
        (case("Conv", floats(1, 1, 2), floats(1, 1, 3)), "3 elements"),
        (case("Div", integers(4, 5), integers(1, 0)), "integers are divided by 0"),
        (case("Mod", integers(4, 5), integers(1, 0)), "integers are divided by 0"),
        (case("Div", np.array([4, 5], np.int32), np.array([1, 0], np.int32)), "integers are divided by 0"),
        (case("Expand", floats(4, 2), integers(3, 2)), "could not be broadcast"),
        (case("GroupNormalization", floats(1, 3, 2), floats(3), floats(3), opset=21, num_groups=2), "reshape"),
    ],
    ids=lambda value: value.operator if isinstance(value, Case) else "",
)
def test_inputs_without_a_result_are_refused_as_onnx_runtime_refuses_them(given: Case, wrong: str) -> None:
    model = model_of(given)
    feeds = {f"i{index}": x for index, x in enumerate(given.inputs) if x is not None}
    with pytest.raises(Exception, match="ONNXRuntimeError"):  # its errors have no common class
        onnxruntime.InferenceSession(model.SerializeToString()).run(None, feeds)
    with pytest.raises(HalError, match=re.escape(wrong)):
        by_cpu_ref(import_onnx(model), feeds)


def test_refusals_are_found_in_branches() -> None:
    node = helper.make_node("Unique", ["x"], ["y"], sorted=0)
    branch = helper.make_graph([node], "branch", [], [onnx.ValueInfoProto(name="y")])
    chosen = helper.make_node("If", ["c"], ["z"], then_branch=branch, else_branch=branch)
    refused = refusal(helper.make_model(helper.make_graph([chosen], "g", [], [])))
    assert refused is not None
    assert "Unique with sorted 0" in refused.got


@pytest.mark.parametrize(("domain", "refuses"), [("", True), ("ai.onnx", True), ("mine", False)])
def test_operators_of_other_domains_are_not_refused(domain: str, refuses: bool) -> None:
    node = helper.make_node("Unique", ["x"], ["y"], domain=domain, sorted=0)
    model = helper.make_model(helper.make_graph([node], "g", [], []), opset_imports=[helper.make_opsetid(domain, 8)])
    assert (refusal(model) is not None) == refuses
