"""What cpu_ref takes of the extension nnhal.tflite: messages that another program may have made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from nnhal.resolved import ResolvedModel
from nnhal.support import SUPPORTED, Unsupported
from nnhal_devices.cpu_ref.driver import CpuRef
from nnhal_frontends.tflite import import_tflite
from tests.support.onnx_models import resolved
from tests.support.tflite_files import TfliteFile, floats, int8, int32
from tests.support.tflite_operators import OneOperator, numbers, one
from tests.support.tflite_variables import running_sum


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
    ],
    ids=lambda value: value.code if isinstance(value, OneOperator) else "",
)
def test_what_kernels_of_litert_fail_at_without_a_word_is_refused(operator: OneOperator, got: str) -> None:
    (answer,) = CpuRef().supported_operations(with_message(operator.file()))
    assert isinstance(answer, Unsupported)
    assert answer.got == f"LiteRT: it has no result for {got}"
