"""Moving a part of a tensor from one place to another."""

from __future__ import annotations

import numpy as np
import pytest

from nnhal_mlip.compiler.geometry.box_bytes import PlacedBox, moves
from nnhal_mlip.compiler.geometry.boxes import TensorBox, whole
from nnhal_mlip.program.program import Strided

ITEM = 2


def _indices(pieces: Strided) -> list[int]:
    return [
        pieces.start + piece * pieces.stride + byte for piece in range(pieces.pieces) for byte in range(pieces.length)
    ]


def _addresses(part: TensorBox, placed: PlacedBox) -> list[int]:
    found: list[int] = []
    for place in np.ndindex(*part.shape):
        at = tuple(int(a + b) for a, b in zip(place, part.starts, strict=True))
        first = placed.address_of((at[0], at[1], at[2], at[3]))
        found += range(first, first + placed.item)
    return found


@pytest.mark.parametrize(
    "part",
    [
        TensorBox((0, 0, 0, 0), (2, 4, 3, 6)),
        TensorBox((0, 1, 0, 0), (1, 3, 3, 6)),
        TensorBox((0, 1, 0, 2), (2, 3, 3, 5)),
        TensorBox((1, 1, 1, 2), (2, 3, 2, 5)),
        TensorBox((0, 1, 1, 2), (2, 4, 3, 4)),
        TensorBox((1, 2, 1, 3), (2, 3, 2, 4)),
    ],
)
def test_the_bytes_of_a_part_move_in_order(part: TensorBox) -> None:
    source = PlacedBox(64, whole((2, 4, 3, 6)), ITEM)
    target = PlacedBox(512, TensorBox((0, 1, 0, 1), (2, 4, 3, 6)) if part.starts[3] else whole((2, 4, 3, 6)), ITEM)
    pairs = moves(part, source, target)
    assert [byte for taken, _ in pairs for byte in _indices(taken)] == _addresses(part, source)
    assert [byte for _, given in pairs for byte in _indices(given)] == _addresses(part, target)


def test_rows_are_one_piece_and_channels_pieces_at_one_stride() -> None:
    tensor = PlacedBox(0, whole((1, 8, 4, 16)), ITEM)
    rows = TensorBox((0, 2, 0, 0), (1, 5, 4, 16))
    channels = TensorBox((0, 0, 0, 8), (1, 8, 4, 16))
    assert moves(rows, tensor, PlacedBox(0, rows, ITEM)) == [(Strided(256, 1, 384, 384), Strided(0, 1, 384, 384))]
    ((taken, given),) = moves(channels, tensor, PlacedBox(0, channels, ITEM))
    assert taken == Strided(16, 32, 16, 32)
    assert given == Strided(0, 1, 512, 512)
