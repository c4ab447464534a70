"""Operators that the HAL has no operation for, as operations of the extension nnhal.tflite."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest

from nnhal.errors import HalError
from nnhal.extensions.tflite import number_of
from nnhal.support import Unsupported
from nnhal.types import OperandType
from nnhal_devices.cpu_ref.driver import CpuRef
from nnhal_frontends import import_model
from nnhal_frontends.errors import InvalidModel, UnsupportedNode
from nnhal_frontends.limits import ImportLimits
from nnhal_frontends.tflite import import_tflite
from tests.frontends.tflite_extension import RUN, check, messages, names_of, run
from tests.support.drawn_values import random
from tests.support.onnx_models import resolved
from tests.support.tflite_files import Options, Spec, TfliteFile, booleans, floats, int32
from tests.support.tflite_operators import numbers, one

X = random(2, 3)


def chain(*codes: str) -> bytes:
    """A file of operators of one input and one output, one after the other."""
    file = TfliteFile()
    found = file.input("x", floats(2, 3))
    for number, code in enumerate(codes):
        (found,) = file.operator(code, [found], {f"t{number}": floats(2, 3)})
    return file.build(found)


def test_connected_operators_are_one_operation() -> None:
    imported = check(chain("RELU", "ROUND", "SIGN", "GELU", "ABS", "ROUND"), {"x": X})
    assert names_of(imported) == ["RELU", RUN, "ABS", RUN]
    assert imported.operation_nodes[1] == ("ROUND_1:t1", "SIGN_2:t2", "GELU_3:t3")


def test_operators_of_which_another_one_needs_the_result_are_apart() -> None:
    # ROUND feeds SIGN both directly and through ABS: as one operation they would need their own result.
    file = TfliteFile()
    x = file.input("x", floats(2, 3))
    (a,) = file.operator("ROUND", [x], {"a": floats(2, 3)})
    (b,) = file.operator("ABS", [a], {"b": floats(2, 3)})
    (c,) = file.operator("ATAN2", [a, b], {"c": floats(2, 3)})
    imported = check(file.build(c), {"x": X})
    assert names_of(imported) == [RUN, "ABS", RUN]


def test_operators_that_only_share_an_input_are_apart() -> None:
    file = TfliteFile()
    x = file.input("x", floats(2, 3))
    (a,) = file.operator("ROUND", [x], {"a": floats(2, 3)})
    (b,) = file.operator("SIGN", [x], {"b": floats(2, 3)})
    imported = check(file.build(a, b), {"x": X})
    assert names_of(imported) == [RUN, RUN]


@pytest.mark.parametrize("seed", range(12))
def test_any_graph_computes_the_same(seed: int) -> None:
    choose, file = np.random.default_rng(seed), TfliteFile()
    tensors = [file.input("x", floats(2, 3)), file.input("z", floats(2, 3))]
    for number in range(14):
        code = str(choose.choice(["ROUND", "GELU", "ABS", "ATAN2", "MAXIMUM", "RELU"]))
        count = 2 if code in ("ATAN2", "MAXIMUM") else 1
        inputs = [int(choose.choice(tensors)) for _ in range(count)]
        tensors += file.operator(code, inputs, {f"t{number}": floats(2, 3)})
    outputs = list(dict.fromkeys([tensors[-1], *(int(i) for i in choose.choice(tensors[2:], 3))]))
    check(file.build(*outputs), {"x": X, "z": random(2, 3, seed=5)})


def test_what_nothing_reads_is_not_computed() -> None:
    file = TfliteFile()
    x = file.input("x", floats(2, 3))
    file.operator("ROUND", [x], {"unused": floats(2, 3)})
    (y,) = file.operator("ABS", [x], {"y": floats(2, 3)})
    imported = check(file.build(y), {"x": X})
    assert names_of(imported) == ["ABS"]
    assert imported.folded_nodes == ("ROUND_0:unused",)


def test_an_input_of_the_model_may_be_its_output_too() -> None:
    file = TfliteFile()
    x = file.input("x", floats(2, 3))
    (y,) = file.operator("ROUND", [x], {"y": floats(2, 3)})
    check(file.build(y, x, y), {"x": X})


@pytest.mark.parametrize("element", [np.float64, np.uint32, np.int64, np.complex64, np.uint16])
def test_types_that_the_hal_has_not_are_those_of_the_extension(element: Any) -> None:
    file = TfliteFile()
    x = file.input("x", Spec((2, 3), element))
    (f,) = file.operator("CAST", [x], {"f": floats(2, 3)}, ("CastOptions", {}))
    (y,) = file.operator("CAST", [f], {"y": Spec((2, 3), np.float64)}, ("CastOptions", {}))
    imported = check(file.build(y), {"x": np.arange(6).reshape(2, 3).astype(element)})
    assert imported.inputs[0].element_type == element
    assert imported.outputs[0].element_type == np.float64


WIDE = Spec((3,), np.int64)


def updated(file: TfliteFile, *values: int) -> int:
    """Put integers of 64 bits behind the first element of an input."""
    x, place = file.input("x", WIDE), file.constant(numbers([1]))
    (y,) = file.operator("DYNAMIC_UPDATE_SLICE", [x, file.constant(np.array(values)), place], {"y": WIDE})
    return y


def test_integers_of_64_bits_are_exact_if_only_the_extension_uses_them() -> None:
    file = TfliteFile()
    content = file.build(updated(file, 2**40, -(2**50)))
    check(content, {"x": np.array([2**62, 1, 2])}, tolerance=0)


def test_integers_of_64_bits_are_exact_though_the_hal_has_the_operator() -> None:
    file = TfliteFile()
    options: Options = ("ReshapeOptions", {})
    y = updated(file, 2**40, -5)
    (z,) = file.operator("RESHAPE", [y, file.constant(numbers([3, 1]))], {"z": Spec((3, 1), np.int64)}, options)
    check(file.build(z), {"x": np.array([-(2**63), 2, 3])}, tolerance=0)


@pytest.mark.parametrize(
    ("given", "values"),
    [
        (floats(3), np.array([3e9, -3e9, 1.5], np.float32)),
        (Spec((3,), np.int64), np.array([2**62, -1, 7])),
        (Spec((3,), np.float64), np.array([1e12, -3e9, 0.5])),
    ],
)
def test_a_sum_may_leave_32_bits(given: Spec, values: Any) -> None:
    file = TfliteFile()
    (wide,) = file.operator("CAST", [file.input("x", given)], {"wide": WIDE}, ("CastOptions", {}))
    (y,) = file.operator("ADD", [wide, file.constant(np.array([1, 2**40, 3]))], {"y": WIDE}, ("AddOptions", {}))
    check(file.build(y), {"x": values}, tolerance=0)


def test_integers_of_64_bits_that_are_lengths_are_the_hals() -> None:
    file = TfliteFile()
    x = file.input("x", Spec((2, 3), signature=(-1, 3)))
    (length,) = file.operator("SHAPE", [x], {"length": Spec((2,), np.int64)}, ("ShapeOptions", {"OutType": 4}))
    (y,) = file.operator("REVERSE_V2", [length, file.constant(numbers([0]))], {"y": Spec((2,), np.int64)})
    content = file.build(y)
    check(content, {"x": X}, tolerance=0)
    imported = import_model(content, shapes={"x": X.shape})
    assert RUN not in names_of(imported)
    assert imported.outputs[0].element_type == np.int64


def test_a_place_beyond_32_bits_is_no_other_place() -> None:
    file = TfliteFile()
    x, place = file.input("x", floats(4)), file.input("place", Spec((1,), np.int64))
    imported = import_tflite(file.build(*file.operator("GATHER", [x, place], {"y": floats(1)}, ("GatherOptions", {}))))
    given = np.arange(4, dtype=np.float32)
    assert run(imported, {"x": given, "place": np.array([2])})[0].tolist() == [2]
    with pytest.raises(HalError):
        run(imported, {"x": given, "place": np.array([2**32 + 2])})


def test_strings_pass_as_values() -> None:
    file, text = TfliteFile(), 5
    x, i = file.input("x", Spec((3,), code=text)), file.input("i", int32(2))
    (y,) = file.operator("GATHER", [x, i], {"y": Spec((2,), code=text)}, ("GatherOptions", {}))
    words = np.array([b"ab", b"", "ü".encode()], object)
    imported = check(file.build(y), {"x": words, "i": numbers([2, 0])})
    assert imported.inputs[0].element_type == np.dtype(object)


@pytest.mark.parametrize("shape", [(), (1,)])
def test_strings_may_be_computed(shape: tuple[int, ...]) -> None:
    file, text = TfliteFile(), 5
    x = file.input("x", Spec(shape, code=text))
    options: Options = ("SkipGramOptions", {"NgramSize": 2, "MaxSkipSize": 1, "IncludeAllNgrams": False})
    imported = import_tflite(file.build(*file.operator("SKIP_GRAM", [x], {"y": Spec((0,), code=text)}, options)))
    (got,) = run(imported, {"x": np.full(shape, b"the quick brown", object)})
    assert got.tolist() == [b"the quick", b"the brown", b"quick brown"]


def test_shapes_that_follow_from_data_are_unknown_before() -> None:
    file = TfliteFile()
    x = file.input("x", booleans(2, 3))
    (where,) = file.operator("WHERE", [x], {"where": Spec((1, 2), np.int64, signature=(-1, 2))})
    imported = import_tflite(file.build(where))
    assert imported.outputs[0].shape == (0, 2)
    for mask in (np.eye(2, 3, dtype=bool), np.zeros((2, 3), bool), np.ones((2, 3), bool)):
        np.testing.assert_array_equal(run(imported, {"x": mask})[0], np.argwhere(mask))


def test_a_shape_that_the_operator_keeps_is_known() -> None:
    file = TfliteFile()
    x = file.input("x", Spec((2, 3), signature=(-1, 3)))
    (a,) = file.operator("ROUND", [x], {"a": Spec((1, 3), signature=(-1, 3))})
    (y,) = file.operator("RELU", [a], {"y": Spec((1, 3), signature=(-1, 3))})
    content = file.build(y)
    assert check(content, {"x": X}).outputs[0].shape == (0, 3)
    assert import_model(content, shapes={"x": X.shape}).outputs[0].shape == (2, 3)


def test_an_operator_of_more_axes_than_the_hal_has_is_left_to_it() -> None:
    node = one("TRANSPOSE", [floats(2, 1, 3, 1, 4, 1), numbers([5, 4, 3, 2, 1, 0])], floats(1, 4, 1, 3, 1, 2))
    assert names_of(check(node.file(), node.arrays())) == [RUN]


def test_its_constants_lie_in_the_message() -> None:
    file = TfliteFile()
    x, table = file.input("x", int32(3)), np.arange(12, dtype=np.float32).reshape(4, 3)
    (y,) = file.operator("GATHER_ND", [file.constant(table), x], {"y": floats(3)})
    (z,) = file.operator("ATAN2", [y, file.constant(table[0])], {"z": floats(3)})
    imported = import_tflite(file.build(z))
    (message,) = messages(imported)
    assert table.tobytes() in message
    assert len(imported.model.main.operations[0].inputs) == 2


def scatter(update: str) -> bytes:
    """A file of a scatter, whose updates a subgraph combines with what is there."""
    file = TfliteFile()
    a, b = file.input("a", floats()), file.input("b", floats())
    combined = file.subgraph(*file.operator(update, [a, b], {"c": floats()}))
    x, updates = file.input("x", floats(4, 3)), file.input("u", floats(2, 3))
    fields = {
        "UpdateWindowDims": np.array([1]),
        "InsertedWindowDims": np.array([0]),
        "ScatterDimsToOperandDims": np.array([0]),
        "IndexVectorDim": 1,
        "UpdateComputationSubgraphIndex": combined,
    }
    inputs = [x, file.constant(numbers([[1], [3]])), updates]
    options = ("StablehloScatterOptions", fields)
    return file.build(*file.operator("STABLEHLO_SCATTER", inputs, {"y": floats(4, 3)}, options))


@pytest.mark.parametrize("update", ["STABLEHLO_ADD", "STABLEHLO_MAXIMUM"])
def test_a_message_has_the_subgraphs_of_its_operators(update: str) -> None:
    imported = check(scatter(update), {"x": random(4, 3), "u": random(2, 3, seed=3)})
    assert names_of(imported) == [RUN]


def test_a_branch_may_have_operations_of_the_extension() -> None:
    file, branches = TfliteFile(), []
    for code in ("ROUND", "ABS"):
        x = file.input("x", floats(2, 3))
        branches.append(file.subgraph(*file.operator(code, [x], {"y": floats(2, 3)})))
    x, which = file.input("x", floats(2, 3)), file.input("which", booleans())
    options = ("IfOptions", {"ThenSubgraphIndex": branches[0], "ElseSubgraphIndex": branches[1]})
    content = file.build(*file.operator("IF", [which, x], {"y": floats(2, 3)}, options))
    for truth in (True, False):
        check(content, {"x": X, "which": np.array(truth)})


def test_detections_are_processed_as_litert_does_it() -> None:
    # The options are a FlexBuffer: a map of its own format, which passes as it is.
    from flatbuffers import flexbuffers

    options = {
        "max_detections": 3, "max_classes_per_detection": 1, "detections_per_class": 3, "use_regular_nms": False,
        "nms_score_threshold": 0.1, "nms_iou_threshold": 0.5, "num_classes": 2,
        "y_scale": 10.0, "x_scale": 10.0, "h_scale": 5.0, "w_scale": 5.0,
    }  # fmt: skip
    file = TfliteFile()
    boxes, scores = file.input("boxes", floats(1, 6, 4)), file.input("scores", floats(1, 6, 3))
    anchors = file.constant(random(6, 4, low=0.1, high=1))
    results = {"b": floats(1, 3, 4), "c": floats(1, 3), "s": floats(1, 3), "n": floats(1)}
    content = file.build(
        *file.operator(
            "TFLite_Detection_PostProcess", [boxes, scores, anchors], results, custom=flexbuffers.Dumps(options)
        )
    )
    imported = check(content, {"boxes": random(1, 6, 4), "scores": random(1, 6, 3, low=0, high=1)})
    assert names_of(imported) == [RUN]


def test_custom_operators_that_nobody_has_are_named_once_each() -> None:
    codes = ["FlexErf", "Other", "FlexErf", "ROUND", *(f"Custom{i}" for i in range(20))]
    with pytest.raises(UnsupportedNode) as caught:
        import_tflite(chain(*codes))
    message = str(caught.value)
    assert message.startswith(
        "nothing here runs CUSTOM FlexErf (2 nodes, first 'CUSTOM FlexErf_0:t0'): a custom operator"
    )
    assert "; CUSTOM Other (node 'CUSTOM Other_1:t1')" in message
    assert "ROUND" not in message
    assert message.endswith("; and 14 other operators")
    assert len(message) < 1000


def test_an_operator_of_a_subgraph_is_named_there() -> None:
    file = TfliteFile()
    x = file.input("x", floats(2, 3))
    branch = file.subgraph(*file.operator("Mine", [x], {"y": floats(2, 3)}))
    x, which = file.input("x", floats(2, 3)), file.input("which", booleans())
    options = ("IfOptions", {"ThenSubgraphIndex": branch, "ElseSubgraphIndex": branch})
    content = file.build(*file.operator("IF", [which, x], {"y": floats(2, 3)}, options))
    with pytest.raises(UnsupportedNode, match="nothing here runs CUSTOM Mine"):
        import_tflite(content)


def test_messages_take_no_more_memory_than_constants_may() -> None:
    file = TfliteFile()
    x, big = file.input("x", floats(64, 64)), file.constant(random(64, 64))
    for number in range(12):
        (x,) = file.operator("ATAN2", [x, big], {f"a{number}": floats(64, 64)})
        (x,) = file.operator("ABS", [x], {f"b{number}": floats(64, 64)})
    content = file.build(x)
    assert names_of(import_tflite(content)).count(RUN) == 12
    with pytest.raises(UnsupportedNode, match=r"take \d+ bytes, expected \d+ more"):
        import_tflite(content, ImportLimits(folded_bytes=0))


def test_a_subgraph_that_there_is_not_is_refused() -> None:
    file = TfliteFile()
    x = file.input("x", floats(4, 3))
    options = ("StablehloScatterOptions", {"UpdateComputationSubgraphIndex": 7})
    content = file.build(*file.operator("STABLEHLO_SCATTER", [x, x, x], {"y": floats(4, 3)}, options))
    with pytest.raises(InvalidModel, match="refers to subgraph 7, there are 1"):
        import_tflite(content)


def strings(*texts: bytes) -> np.ndarray[Any, Any]:
    """The buffer of a constant of strings: how many, where each begins and the last ends, and their bytes."""
    begins = np.cumsum([4 * (len(texts) + 2), *map(len, texts)])
    head = np.array([len(texts), *begins], np.int32).tobytes()
    return np.frombuffer(head + b"".join(texts), np.uint8)


def test_a_model_with_tables_is_one_operation() -> None:
    file, text, handle = TfliteFile(), 5, Spec((1,), code=13)
    table: Options = ("HashtableOptions", {"TableId": 7, "KeyDtype": 4, "ValueDtype": text})
    (h,) = file.operator("HASHTABLE", [], {"h0": handle}, table)
    values = file.constant(strings(b"one", b"two", b"three"), Spec((3,), np.uint8, code=text))
    file.operator("HASHTABLE_IMPORT", [h, file.constant(np.array([1, 2, 3])), values], {})
    first = file.subgraph()
    file.operator("CALL_ONCE", [], {}, ("CallOnceOptions", {"InitSubgraphIndex": first}))
    x = file.input("x", Spec((2,), np.int64))
    (h,) = file.operator("HASHTABLE", [], {"h": handle}, table)
    unknown = file.constant(strings(b"?"), Spec((1,), np.uint8, code=text))
    content = file.build(*file.operator("HASHTABLE_FIND", [h, x, unknown], {"y": Spec((2,), code=text)}))
    imported = import_tflite(content)
    assert names_of(imported) == [RUN]
    assert run(imported, {"x": np.array([3, 9])})[0].tolist() == [b"three", b"?"]


def test_a_file_can_be_one_operation() -> None:
    content = chain("RELU", "ROUND", "ABS")
    imported = import_tflite(content, as_one=True)
    assert names_of(imported) == [RUN]
    assert messages(imported) == [content]
    (got,) = run(imported, {"x": X})
    np.testing.assert_array_equal(got, np.abs(np.round(np.maximum(X, 0))))


def test_without_litert_the_device_says_which_package_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    model = resolved(import_tflite(chain("ROUND")).model)
    monkeypatch.setitem(__import__("sys").modules, "ai_edge_litert.interpreter", None)
    (answer,) = CpuRef().supported_operations(model)
    assert isinstance(answer, Unsupported)
    assert (answer.code, answer.got) == ("NO_IMPL", "an operation of nnhal.tflite")
    assert "ai-edge-litert" in answer.allowed


def test_the_operands_of_a_message_are_those_of_the_hal() -> None:
    imported = import_tflite(
        one("ONE_HOT", [int32(3), numbers(4), np.array(1, np.float32), np.array(0, np.float32)], floats(3, 4)).file()
    )
    main = imported.model.main
    (operation,) = main.operations
    assert number_of(imported.model, operation.type) == 0
    assert main.operands[operation.inputs[1]].type == OperandType.TENSOR_INT32
    assert struct.unpack_from("<4s", messages(imported)[0], 4) == (b"TFL3",)


def looped(counts: Spec, grows: bool) -> bytes:
    """Turns until a counter has passed a constant; the value doubles, or gets one more element, in each."""
    step = {np.dtype(np.int32): np.array([3], np.int32), np.dtype(np.int64): np.array([2**40])}[
        np.dtype(counts.element_type)
    ]
    value, grown = (Spec((1,), signature=(-1,)), Spec((1,), signature=(-1,))) if grows else (floats(2), floats(2))
    file = TfliteFile()
    counter, _ = file.input("i", counts), file.input("x", value)
    condition = file.subgraph(*file.operator("LESS", [counter, file.constant(4 * step)], {"more": booleans(1)}))
    counter, x = file.input("i", counts), file.input("x", value)
    (following,) = file.operator("ADD", [counter, file.constant(step)], {"next": counts}, ("AddOptions", {}))
    one = file.constant(np.ones(1, np.float32))
    joined: Options = ("ConcatenationOptions", {"Axis": 0})
    code, inputs, options = ("CONCATENATION", [x, one], joined) if grows else ("ADD", [x, x], ("AddOptions", {}))
    body = file.subgraph(following, *file.operator(code, inputs, {"y": grown}, options))
    values = [file.input("start", counts), file.input("x", floats(*value.shape))]
    loop: Options = ("WhileOptions", {"CondSubgraphIndex": condition, "BodySubgraphIndex": body})
    return file.build(*file.operator("WHILE", values, {"end": counts, "y": grown}, loop))


@pytest.mark.parametrize(("counts", "grows"), [(int32(1), True), (Spec((1,), np.int64), False)])
def test_a_loop_may_grow_its_value_or_count_beyond_32_bits(counts: Spec, grows: bool) -> None:
    content = looped(counts, grows)
    inputs = {"start": np.ones(1, counts.element_type), "x": np.ones(1 if grows else 2, np.float32)}
    imported = check(content, inputs, tolerance=0)
    assert messages(imported) == ([] if grows else [content])
