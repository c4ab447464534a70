"""Division of layers."""

from __future__ import annotations

import numpy as np
import pytest

from nnhal_mlip.compiler.geometry.boxes import Extents, TensorBox
from nnhal_mlip.compiler.layers.tile_layers import LayerOperand, TileLayer
from nnhal_mlip.compiler.planning.choices import LayerChoice, rows_axis, shares, stripes
from nnhal_mlip.program.program import LayerSplit, TaskKind, TaskWindow


def _layer(extents: Extents, groups: int = 1, window: TaskWindow | None = None) -> TileLayer:
    operand = LayerOperand("x")
    return TileLayer(
        0, TaskKind.CONVOLUTION, (operand,), LayerOperand("y"), extents, window or TaskWindow(), groups=groups
    )


def _counts(boxes: list[TensorBox], extents: Extents) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    counts = np.zeros(extents, np.int64)
    for box in boxes:
        counts[tuple(slice(start, stop) for start, stop in zip(*box, strict=True))] += 1
    return counts


@pytest.mark.parametrize("split", LayerSplit)
@pytest.mark.parametrize("tiles", [1, 2, 3, 4, 8])
@pytest.mark.parametrize("extents", [(1, 7, 5, 40), (2, 3, 4, 5), (4, 1, 1, 33), (1, 1, 6, 16)])
def test_every_element_is_computed_once(split: LayerSplit, tiles: int, extents: Extents) -> None:
    layer = _layer(extents)
    assert (_counts(list(shares(layer, split, tiles).values()), extents) == 1).all()
    for rows, channels in ((1, 1), (2, 3), (100, 100)):
        choice = LayerChoice(split, tiles, rows, channels)
        boxes = [box for stripe in stripes(layer, choice, 16) for box in stripe.boxes.values()]
        assert (_counts(boxes, extents) == 1).all()


def test_groups_are_not_cut() -> None:
    parts = shares(_layer((1, 4, 4, 12), groups=4), LayerSplit.CHANNELS, 8)
    assert [box.shape[3] for box in parts.values()] == [3, 3, 3, 3]


def test_stripes_of_channels_are_whole_blocks_of_the_array() -> None:
    found = stripes(_layer((1, 4, 4, 100)), LayerChoice(LayerSplit.ROWS, 1, channel_stripes=5), 16)
    assert [stripe.boxes[0].shape[3] for stripe in found] == [32, 32, 32, 4]


def test_rows_are_not_along_an_axis_of_which_windows_see_padding_alone() -> None:
    assert rows_axis(_layer((1, 14, 14, 8), window=TaskWindow(padding=(2, 0, 2, 0)))) == 2
    assert rows_axis(_layer((1, 14, 14, 8), window=TaskWindow(padding=(2, 2, 2, 2)))) == 0
