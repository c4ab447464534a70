"""Cutting an operation's output into stripes that fit the SRAM together with what they are made from.

A stripe is a number of whole rows of some of the channels. Few stripes are better than many: for each the input and
the weights have to be fetched again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from nnhal_devices.ethos_n.geometry import Geometry
from nnhal_devices.ethos_n.limits import GRANULE, SRAM_BYTES


@dataclass(frozen=True, slots=True)
class Stripes:
    """An operation in ``count`` stripes of at most so many rows and channels, each of which takes ``bytes`` of SRAM."""

    rows: int
    channels: int
    bytes: int
    count: int


def cut(geometry: Geometry, sram_bytes: int = SRAM_BYTES) -> Stripes | None:
    """The fewest stripes, of those with all channels, half of them and so on; None where the smallest does not fit."""
    fitting = (_tallest(geometry, channels, sram_bytes) for channels in _parts(geometry.channels))
    return min((stripes for stripes in fitting if stripes is not None), key=lambda s: s.count, default=None)


def smallest(geometry: Geometry) -> Stripes:
    """A row of a granule of channels, whether it fits or not."""
    return _stripes(geometry, 1, min(GRANULE, geometry.channels))


def _parts(channels: int) -> Iterator[int]:
    """All channels, and ever fewer, in granules."""
    yield channels
    while channels > GRANULE:
        channels = -(-channels // (2 * GRANULE)) * GRANULE
        yield channels


def _tallest(geometry: Geometry, channels: int, sram_bytes: int) -> Stripes | None:
    """Stripes of as many rows as fit, found by bisection."""
    fits, too_many = 0, geometry.height + 1
    while too_many - fits > 1:
        rows = (fits + too_many) // 2
        if geometry.stripe_bytes(rows, channels) <= sram_bytes:
            fits = rows
        else:
            too_many = rows
    return _stripes(geometry, fits, channels) if fits else None


def _stripes(geometry: Geometry, rows: int, channels: int) -> Stripes:
    count = -(-geometry.height // rows) * -(-geometry.channels // channels)
    return Stripes(rows, channels, geometry.stripe_bytes(rows, channels), count)
