"""Parameters of requests: parameters of the protocol and of the model, and outputs as classes."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from nnhal_service.serving.errors import ErrorKind, ServingError
from nnhal_service.serving.requests.request import Parameter
from nnhal_service.v2.requested import classify, request_parameters


def test_what_the_protocol_has_no_meaning_for_is_the_model_s() -> None:
    found = request_parameters(
        {"priority": 2, "timeout": 3, "binary": True, "sequence_start": False, "mine": "a"}, flags=("binary",)
    )
    assert (found.priority, found.timeout_ns) == (2, 3000)
    assert found.others == {"sequence_start": False, "mine": "a"}


def test_without_parameters_nothing_is_said() -> None:
    found = request_parameters({})
    assert (found.priority, found.timeout_ns, found.others) == (0, 0, {})


@pytest.mark.parametrize("timeout", [2**53, 2**63 - 1, 2**64 - 1])
def test_a_timeout_after_which_the_clock_would_run_over_is_one_of_146_years(timeout: int) -> None:
    assert request_parameters({"timeout": timeout}).timeout_ns == 2**62


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"priority": -1}, "parameter 'priority' is -1, expected 0 or more"),
        ({"timeout": True}, "parameter 'timeout' is True, expected an integer"),
        ({"timeout": 0.5}, "parameter 'timeout' is 0.5, expected an integer"),
        ({"sequence_end": 1}, "parameter 'sequence_end' is 1, expected true or false"),
        ({"binary": "yes"}, "parameter 'binary' is 'yes', expected true or false"),
        ({"triton_x": 1}, "parameter 'triton_x': names that begin with 'triton_' are reserved"),
    ],
)
def test_what_is_wrong_is_said(given: dict[str, Parameter], message: str) -> None:
    with pytest.raises(ServingError) as caught:
        request_parameters(given, flags=("binary",))
    assert (caught.value.kind, caught.value.message) == (ErrorKind.INVALID_ARGUMENT, message)


def test_the_highest_come_first_with_their_labels() -> None:
    scores = np.array([0.1, 0.6, 0.3], np.float32)
    assert classify(scores, 2, False, ["cat", "dog"], "y").tolist() == [b"0.600000:1:dog", b"0.300000:2"]


def test_each_item_of_a_batch_has_its_own() -> None:
    scores = np.array([[1, 2], [4, 3]], np.int32)
    answer = classify(scores, 1, True, [], "y")
    assert answer.tolist() == [[b"2:1"], [b"4:0"]]


def test_there_are_no_more_than_elements() -> None:
    assert classify(np.array([5, 9], np.uint8), 10, False, [], "y").tolist() == [b"9:1", b"5:0"]


def test_all_axes_but_the_batch_are_classes() -> None:
    assert classify(np.arange(4).reshape(1, 2, 2), 2, True, [], "y").tolist() == [[b"3:3", b"2:2"]]
    assert classify(np.arange(4).reshape(2, 2), 1, False, [], "y").tolist() == [b"3:3"]


def test_what_is_equal_is_in_order_and_nan_is_last() -> None:
    scores = np.array([np.nan, 1, 1], ml_dtypes.bfloat16)
    assert classify(scores, 3, False, [], "y").tolist() == [b"1.000000:1", b"1.000000:2", b"nan:0"]


def test_the_lowest_integer_is_the_lowest() -> None:
    scores = np.array([-(2**63), 0, 2**63 - 1])
    assert classify(scores, 3, False, [], "y").tolist() == [
        f"{2**63 - 1}:2".encode(),
        b"0:1",
        f"{-(2**63)}:0".encode(),
    ]


@pytest.mark.parametrize(("shape", "batched", "answer"), [((0,), False, (0,)), ((0, 3), True, (0, 0))])
def test_nothing_has_no_classes(shape: tuple[int, ...], batched: bool, answer: tuple[int, ...]) -> None:
    assert classify(np.zeros(shape, np.float32), 2, batched, [], "y").shape == answer


@pytest.mark.parametrize("array", [np.array([b"a"], object), np.array([True])])
def test_what_has_no_order_is_refused(array: np.ndarray[tuple[int], np.dtype[np.generic]]) -> None:
    with pytest.raises(ServingError, match="output 'y' cannot be classified: its elements are not numbers") as got:
        classify(array, 1, False, [], "y")
    assert got.value.kind == ErrorKind.INVALID_ARGUMENT
