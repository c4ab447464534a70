from __future__ import annotations

import numpy as np
import pytest

from nnhal_cascade.geometry.box import Box, Interval, Shape
from nnhal_cascade.machine.tags import ByteOwners, first_difference

OWNERS = ByteOwners([("image", Shape(4, 3, 2)), ("conv_1", Shape(2, 2, 2))], [("constants of conv_1", Shape(1, 2, 10))])


def tag(owner: int, row: int, column: int, channel: int) -> int:
    box = Box(*(Interval(index, index + 1) for index in (row, column, channel)))
    return int(OWNERS.tags(owner, box).item())


def test_every_element_has_a_tag_of_its_own() -> None:
    tags = np.concatenate(
        [
            OWNERS.tags(owner, Box(*(Interval(0, length) for length in shape))).reshape(-1)
            for owner, shape in enumerate(((4, 3, 2), (2, 2, 2), (1, 2, 10)))
        ]
    )
    assert len(np.unique(tags)) == len(tags) == 24 + 8 + 20
    assert tags.min() > 0


@pytest.mark.parametrize(
    ("expected", "found", "sentence"),
    [
        (tag(0, 3, 1, 1), 0, "image[row 3, column 1, channel 1] was never written"),
        (
            tag(0, 3, 1, 1),
            tag(1, 0, 1, 0),
            "image[row 3, column 1, channel 1] was overwritten by conv_1[row 0, column 1, channel 0]",
        ),
        (
            tag(1, 1, 1, 1),
            -tag(1, 1, 1, 1),
            "conv_1[row 1, column 1, channel 1] is dead: the stream has rolled past it",
        ),
        (
            tag(1, 1, 1, 1),
            -tag(0, 0, 0, 0),
            "conv_1[row 1, column 1, channel 1] is not there: image[row 0, column 0, channel 0] was, and is dead",
        ),
        (
            tag(2, 0, 1, 7),
            tag(1, 0, 0, 0),
            "constants of conv_1[channel 1, byte 7] was overwritten by conv_1[row 0, column 0, channel 0]",
        ),
    ],
)
def test_faults_name_what_was_expected_and_what_is_there(expected: int, found: int, sentence: str) -> None:
    assert OWNERS.fault(expected, found) == sentence


def test_one_byte_of_an_element_is_enough_to_differ() -> None:
    expected = np.array([[5, 6]], np.int64)
    found = np.array([[[5, 5], [6, 7]]], np.int64)
    assert first_difference(expected, found) == (0, 1, 1)
    assert first_difference(expected, np.repeat(expected[..., None], 2, axis=2)) is None
