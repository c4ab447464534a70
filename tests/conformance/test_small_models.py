from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest

from nnhal.arrays import Array
from nnhal.memory import open_pool
from nnhal_conformance.rule import BrokenRuleError
from nnhal_conformance.small_models import SmallRequest, small_models

SMALL = small_models()[0]
WORD = 16


def device(request: SmallRequest, spoil: Callable[[list[Array]], None]) -> Callable[[], None]:
    """A device that adds two inputs, and does something else to the memory of all arguments."""
    pool = open_pool(request.memory, writable=True)
    places = [each.location for each in (*request.request.inputs, *request.request.outputs)]

    def run() -> None:
        first, second = (pool.read(place.offset, place.length).view(np.float32) for place in places[:2])
        painted = pool.read(places[2].offset, places[2].length)
        values = [first.view(np.uint8).copy(), second.view(np.uint8), (first + second).view(np.uint8), painted]
        spoil(values)
        for place, value in zip(places, values, strict=False):
            pool.write(place.offset, value)

    return run


def leave_the_end(values: list[Array]) -> None:
    whole = len(values[2]) // WORD * WORD
    values[2][whole:] = values[3][whole:]


def change_an_input(values: list[Array]) -> None:
    values[0][0] ^= 1


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (leave_the_end, "nothing was written from byte 128 of 140 on"),
        (change_an_input, "ADD of float32: input 0 was changed"),
        (lambda values: values[2].fill(values[3][0]), "the output was not written"),
    ],
)
def test_what_is_not_written_or_is_changed_is_told(spoil: Callable[[list[Array]], None], words: str) -> None:
    request = SmallRequest(SMALL)
    with pytest.raises(BrokenRuleError, match=re.escape(words)):
        request.run(device(request, spoil))


def test_an_output_that_is_right_passes() -> None:
    request = SmallRequest(SMALL)
    request.run(device(request, lambda _: None))
