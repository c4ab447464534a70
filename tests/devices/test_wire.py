from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

import numpy as np
import pytest

from nnhal.errors import HalError, general_failure, invalid_argument
from nnhal.types import ErrorStatus
from nnhal_devices.wire import CHUNK_BYTES, Scatter, chunks_of, joined


def places(*sizes: int) -> list[np.ndarray]:
    return [np.zeros(size, np.uint8) for size in sizes]


@pytest.mark.parametrize("step", [1, 3, 7, 10])
def test_bytes_arrive_in_their_places_however_they_are_divided(step: int) -> None:
    content, into = bytes(range(1, 11)), places(3, 1, 6)
    scatter = Scatter(into, "inputs")
    for start in range(0, 10, step):
        scatter.feed(content[start : start + step])
    scatter.require_full()
    assert joined(into) == content


@pytest.mark.parametrize(
    ("refuse", "status"),
    [(invalid_argument, ErrorStatus.INVALID_ARGUMENT), (general_failure, ErrorStatus.GENERAL_FAILURE)],
)
def test_too_many_bytes_are_refused(refuse: Callable[[str], NoReturn], status: ErrorStatus) -> None:
    with pytest.raises(HalError, match="5 bytes of inputs, expected 4") as caught:
        Scatter(places(4), "inputs", refuse).feed(bytes(5))
    assert caught.value.status == status


def test_missing_bytes_are_refused() -> None:
    scatter = Scatter(places(4), "inputs")
    scatter.feed(bytes(3))
    with pytest.raises(HalError, match="3 bytes of inputs, expected 4"):
        scatter.require_full()


def test_chunks_are_no_longer_than_a_message_may_be() -> None:
    chunks = list(chunks_of(places(2 * CHUNK_BYTES + 1, 5)))
    assert [len(chunk) for chunk in chunks] == [CHUNK_BYTES, CHUNK_BYTES, 1, 5]


def test_without_places_there_are_no_bytes() -> None:
    assert joined([]) == b""
    Scatter([], "inputs").require_full()
