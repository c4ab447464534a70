"""Support of cpu_ref for the extension nnhal.tflite: messages that another program may have made."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from nnhal.arrays import Array
from nnhal.errors import HalError
from nnhal.resolved import ResolvedModel
from nnhal.support import SUPPORTED, Unsupported
from nnhal_devices.cpu_ref.driver import CpuRef
from nnhal_frontends.tflite import import_tflite
from tests.support.onnx_models import by_cpu_ref, resolved
from tests.support.tflite_files import Options, Spec, TfliteFile, booleans, floats, int8, int32
from tests.support.tflite_operators import OneOperator, numbers, one
from tests.support.tflite_variables import running_sum

PLACE = ("StridedSliceOptions", {"ShrinkAxisMask": 1})
INT64 = Spec((3,), np.int64)
SHAPE = Spec((2, 2), signature=(-1, -1))


def sliced(*bounds: int, options: dict[str, Any] | None = None) -> OneOperator:
    """A STRIDED_SLICE of 4 rows, the place or range of its first axis given at run time."""
    begins, ends, strides = (np.array([bound]) for bound in bounds)
    out = floats(2) if options is None else Spec((1, 2), signature=(-1, 2))
    return one(
        "STRIDED_SLICE",
        [floats(4, 2), int32(1), numbers(ends), numbers(strides)],
        out,
        (PLACE[0], options or PLACE[1]),
        values={1: begins},
    )


def with_message(content: bytes) -> ResolvedModel:
    """A model of one RUN with the input ``x`` and the output ``y``, both of 3 floats, with any message."""
    file = TfliteFile()
    model = resolved(
        import_tflite(file.build(*file.operator("ROUND", [file.input("x", floats(3))], {"y": floats(3)}))).model
    )
    (operation,) = model.model.main.operations
    constants = {**model.constants[0], operation.inputs[0]: np.frombuffer(content, np.uint8)}
    return replace(model, constants=(constants, *model.constants[1:]))


def with_variable_tensor(in_subgraph: bool) -> bytes:
    """A file with a variable tensor, which the main subgraph has, or one that no operator refers to."""
    file = TfliteFile()
    if in_subgraph:
        given, state = file.input("given", floats(3)), file.variable("state", floats(3))
        file.subgraph(*file.operator("ADD", [given, state], {"sum": floats(3)}, ("AddOptions", {})))
        return file.build(*file.operator("ROUND", [file.input("x", floats(3))], {"y": floats(3)}))
    x, state = file.input("x", floats(3)), file.variable("state", floats(3))
    return file.build(*file.operator("ADD", [x, state], {"y": floats(3)}, ("AddOptions", {})))


def test_any_message_that_fits_is_supported() -> None:
    file = TfliteFile()
    content = file.build(*file.operator("SIGN", [file.input("x", floats(3))], {"y": floats(3)}))
    assert CpuRef().supported_operations(with_message(content)) == [SUPPORTED]


@pytest.mark.parametrize(
    ("make", "got"),
    [
        (running_sum, "a message with variables"),
        (lambda: with_variable_tensor(False), "a message with a variable tensor"),
        (lambda: with_variable_tensor(True), "a message with a variable tensor"),
    ],
    ids=["variables", "a variable tensor", "a variable tensor in a subgraph"],
)
def test_a_message_that_would_keep_values_for_any_other_run_is_refused(make: Callable[[], bytes], got: str) -> None:
    (answer,) = CpuRef().supported_operations(with_message(make()))
    assert isinstance(answer, Unsupported)
    assert (answer.code, answer.got) == ("OP", got)


@pytest.mark.parametrize(
    ("operator", "got"),
    [
        (one("ATAN2", [floats(2, 3), floats(2, 1)], floats(2, 3)), "ATAN2 of [2, 3] and [2, 1]"),
        (one("REVERSE_V2", [floats(2, 0), numbers([1])], floats(2, 0)), "REVERSE_V2 of [2, 0] and [1]"),
        (one("SOFTMAX", [floats(2, 0)], floats(2, 0), ("SoftmaxOptions", {"Beta": 1.0})), "SOFTMAX of [2, 0]"),
        (
            one(
                "REVERSE_SEQUENCE",
                [floats(0, 3), int32(0)],
                floats(0, 3),
                ("ReverseSequenceOptions", {"SeqDim": 1}),
            ),
            "REVERSE_SEQUENCE of [0, 3] and [0]",
        ),
        (one("SUM", [int8(2, 0), numbers([1])], int8(2)), "SUM of [2, 0] and [1]"),
        (one("MATRIX_SET_DIAG", [floats(3, 3), floats(2)], floats(3, 3)), "MATRIX_SET_DIAG of [3, 3] and [2]"),
        (one("STABLEHLO_SHIFT_LEFT", [int32(3), int32(2)], int32(3)), "STABLEHLO_SHIFT_LEFT of [3] and [2]"),
        (one("TRANSPOSE", [floats(2, 4), numbers([1, -1])], floats(4, 4)), "TRANSPOSE of [2, 4] and [1, -1]"),
        (
            one("STRIDED_SLICE", [floats(2, 4), *(numbers([n]) for n in (2, 3, 1))], floats(4), PLACE),
            "STRIDED_SLICE of [2, 4] and [2] and [3] and [1]",
        ),
    ],
    ids=lambda value: value.code if isinstance(value, OneOperator) else "",
)
def test_what_kernels_of_litert_fail_at_without_a_word_is_refused(operator: OneOperator, got: str) -> None:
    (answer,) = CpuRef().supported_operations(with_message(operator.file()))
    assert isinstance(answer, Unsupported)
    assert answer.got == f"LiteRT: it has no result for {got}"


@pytest.mark.parametrize(
    "operator",
    [
        one("SUB", [Spec((3,), np.int16), Spec((3,), np.int16)], Spec((3,), np.int16), ("SubOptions", {})),
        one("SQRT", [Spec((3,), np.int16)], Spec((3,), np.int16)),
        one("ADD", [Spec((3,), np.uint8), Spec((3,), np.uint8)], Spec((3,), np.uint8), ("AddOptions", {})),
        one("LESS", [Spec((3,), np.uint8), Spec((3,), np.uint8)], booleans(3), ("LessOptions", {})),
    ],
    ids=lambda value: value.code,
)
def test_codes_without_a_scale_at_which_kernels_of_litert_end_the_process_are_refused(operator: OneOperator) -> None:
    (answer,) = CpuRef().supported_operations(with_message(operator.file()))
    assert isinstance(answer, Unsupported)
    assert answer.got.endswith("only with a scale")


def in_branch(code: str, bounds: Sequence[Array | Spec], options: Options | None = None) -> bytes:
    """A file of an IF whose branches apply an operator to an input and bounds, or to two inputs."""
    file = TfliteFile()
    branches = []
    for _ in range(2):
        given = [file.input("x", floats(2, 4))]
        given += [file.input("n", each) if isinstance(each, Spec) else file.constant(each) for each in bounds]
        branches.append(file.subgraph(*file.operator(code, given, {"r": Spec((1,), signature=(-1,))}, options)))
    given = [file.input("which", booleans()), file.input("x", floats(2, 4))]
    given += [file.input("n", each) for each in bounds if isinstance(each, Spec)]
    choice = ("IfOptions", {"ThenSubgraphIndex": branches[0], "ElseSubgraphIndex": branches[1]})
    return file.build(*file.operator("IF", given, {"y": Spec((1,), signature=(-1,))}, choice))


@pytest.mark.parametrize(
    ("content", "got"),
    [
        (in_branch("TRANSPOSE", [numbers([1, 1])]), "it has no result for TRANSPOSE of [2, 4] and [1, 1]"),
        (
            in_branch("STRIDED_SLICE", [int32(1), numbers([1]), numbers([1])], PLACE),
            "it does not check the values of STRIDED_SLICE, which a subgraph computes",
        ),
    ],
    ids=["TRANSPOSE", "STRIDED_SLICE"],
)
def test_branches_are_searched_for_them_too(content: bytes, got: str) -> None:
    (answer,) = CpuRef().supported_operations(with_message(content))
    assert isinstance(answer, Unsupported)
    assert answer.got == f"LiteRT: {got}"


def test_a_place_that_an_operator_computes_is_checked() -> None:
    file = TfliteFile()
    (place,) = file.operator("BITWISE_XOR", [file.input("x", int32(1)), file.constant(numbers([1]))], {"p": int32(1)})
    given = [file.constant(np.arange(8, dtype=np.float32).reshape(4, 2)), place, file.constant(numbers([0]))]
    made = file.operator("STRIDED_SLICE", [*given, file.constant(numbers([1]))], {"y": floats(2)}, PLACE)
    imported = import_tflite(file.build(*made))
    assert len(imported.model.main.operations) == 1
    (result,) = by_cpu_ref(imported, {"x": numbers([3])})
    assert result.tolist() == [4, 5]
    with pytest.raises(HalError, match=re.escape("STRIDED_SLICE of [4, 2] and [5] and [0] and [1]")):
        by_cpu_ref(imported, {"x": numbers([4])})


@pytest.mark.parametrize(
    ("operator", "got"),
    [
        (sliced(4, 0, 1), "STRIDED_SLICE of [4, 2] and [4] and [0] and [1]"),
        (sliced(1, 0, -1), "STRIDED_SLICE of [4, 2] and [1] and [0] and [-1]"),
        (sliced(3, 2, 1, options={"Offset": True}), "STRIDED_SLICE of [4, 2] and [3] and [2] and [1]"),
        (one("TOPK_V2", [floats(2, 4), int32()], [SHAPE, SHAPE], values={1: -1}), "TOPK_V2 of [2, 4] and [-1]"),
        (one("RANDOM_UNIFORM", [int32(2)], SHAPE, values={0: [2, -1]}), "RANDOM_UNIFORM of [2, -1]"),
        (
            one("BROADCAST_ARGS", [int32(2)] * 2, int32(2), values={0: [4, 2], 1: [2, 3]}),
            "BROADCAST_ARGS of [4, 2] and [2, 3]",
        ),
        (
            one("FLOOR_MOD", [INT64] * 2, INT64, values={0: [0, 1, -(1 << 63)], 1: [1, 2, -1]}),
            f"FLOOR_MOD of [0, 1, {-(1 << 63)}] and [1, 2, -1]",
        ),
    ],
    ids=lambda value: value.code if isinstance(value, OneOperator) else "",
)
def test_values_of_which_kernels_of_litert_have_no_result_are_refused(operator: OneOperator, got: str) -> None:
    with pytest.raises(HalError, match=re.escape(f"LiteRT: it has no result for {got}")):
        by_cpu_ref(import_tflite(operator.file()), operator.arrays())
