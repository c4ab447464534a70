"""Cutting an operation's output into stripes that fit the SRAM together with their inputs and weights.

A stripe is a number of whole rows of some of the channels. Few stripes are better than many: each one fetches its input
and weights again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from nnhal_devices.ethos_n.geometry import Geometry
from nnhal_devices.ethos_n.limits import GRANULE, SRAM_BYTES


@dataclass(frozen=True, slots=True)
class Stripes:
    """``count`` stripes of at most ``rows`` and ``channels``, each of which takes at most ``bytes`` of SRAM."""

    rows: int
    channels: int
    bytes: int
    count: int


def cut(geometry: Geometry, sram_bytes: int = SRAM_BYTES) -> Stripes | None:
    """The cut with the fewest stripes, of all channels, half of them and so on. None if no cut fits."""
    fitting = (_tallest(geometry, channels, sram_bytes) for channels in _parts(geometry.channels))
    return min((stripes for stripes in fitting if stripes is not None), key=lambda s: s.count, default=None)


def smallest(geometry: Geometry) -> Stripes:
    """The cut into the smallest stripes: a row of one granule of channels. It may not fit."""
    return _stripes(geometry, 1, min(GRANULE, geometry.channels))


def _parts(channels: int) -> Iterator[int]:
    """The number of all channels, then about half of it and so on, in granules."""
    yield channels
    while channels > GRANULE:
        channels = -(-channels // (2 * GRANULE)) * GRANULE
        yield channels


def _tallest(geometry: Geometry, channels: int, sram_bytes: int) -> Stripes | None:
    """The stripes with the most rows that fit, found by bisection."""
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
