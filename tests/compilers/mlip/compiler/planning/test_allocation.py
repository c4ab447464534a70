"""Addresses of buffers."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from nnhal_mlip.compiler.geometry.boxes import whole
from nnhal_mlip.compiler.planning.allocation import live_bytes, place
from nnhal_mlip.compiler.planning.buffers import OcmBuffer, OcmBufferUse


def _buffers(seed: int, pinned: int) -> list[OcmBuffer]:
    random = np.random.default_rng(seed)
    found = []
    for number in range(60):
        begin = int(random.integers(30))
        size, end = int(random.integers(1, 5000)), begin + int(random.integers(6))
        boxes = {0: whole((1, 1, 1, size))}
        found.append(OcmBuffer(OcmBufferUse.VALUE, f"v{number}", 0, boxes, size, begin, end, number < pinned))
    return found


@pytest.mark.parametrize("seed", range(10))
def test_buffers_that_live_at_the_same_time_do_not_overlap(seed: int) -> None:
    buffers = _buffers(seed, 0)
    offsets, totals = place(buffers)
    for number, one in enumerate(buffers):
        for other in buffers[:number]:
            if one.begin <= other.end and other.begin <= one.end:
                first, second = offsets[id(one)], offsets[id(other)]
                assert first + one.bytes <= second or second + other.bytes <= first
    assert totals.scratch >= max(live_bytes(buffers, 36))
    assert totals.scratch == max(-(-(offsets[id(one)] + one.bytes) // 128) * 128 for one in buffers)


def test_pinned_buffers_share_nothing() -> None:
    buffers = _buffers(0, 60)
    offsets, totals = place(buffers)
    spans = sorted((offsets[id(one)], offsets[id(one)] + one.bytes) for one in buffers)
    assert all(stop <= start for (_, stop), (start, _) in pairwise(spans))
    assert totals.scratch == 0 and totals.pinned >= spans[-1][1]
