from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from nnhal_service.serving.errors import ErrorKind, ServingError
from nnhal_service.v2.classification import classify


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
    with pytest.raises(ServingError, match="output 'y' has elements that are no numbers") as got:
        classify(array, 1, False, [], "y")
    assert got.value.kind == ErrorKind.INVALID_ARGUMENT
