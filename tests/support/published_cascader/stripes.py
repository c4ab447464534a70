"""Stripe configurations as the RFC's implementation has them, and the sizes of its buffers for stripes.

A rolling buffer here is as high as the stripe that the consumer asks for. The planner's own rolling buffers have
exactly the rows that are alive at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from math import ceil, floor, prod

from nnhal_cascade.geometry.box import Interval


@dataclass(frozen=True)
class StripeConfig:
    """The stripes of a tensor: a value for each of its axes. Raises ValueError if that is no set of stripes."""

    shape: tuple[int, ...]
    """Elements of a stripe."""
    extent: tuple[int, ...]
    """Elements of all that is cut into stripes."""
    strides: tuple[float, ...]
    """Elements from the start of a stripe to that of the next; after an upscale it may be fractional."""
    order: tuple[int, ...]
    """The place of the axis's loop, 1 for the outermost, or 0 if there is none."""
    stripes: tuple[int, ...]
    """The number of stripes."""
    offset: tuple[int, ...]
    """The element at which the first stripe starts, negative in a padding."""

    def __post_init__(self) -> None:
        ranks = {name: len(getattr(self, name)) for name in self.__dataclass_fields__}
        if len(set(ranks.values())) != 1:
            given = ", ".join(f"{name} has {rank}" for name, rank in ranks.items())
            raise ValueError(f"stripe configuration: {given}; expected one value for each axis in all of them")
        for name, least in (("shape", 1), ("extent", 1), ("strides", 0), ("order", 0), ("stripes", 1)):
            values = getattr(self, name)
            if any(value < least for value in values):
                raise ValueError(f"stripe configuration: {name} is {values}; expected values of at least {least}")

    def stripe(self, axis: int, number: int) -> Interval:
        """Return a stripe's interval of an axis. It may reach over the borders."""
        start = self.offset[axis] + floor(self.strides[axis] * number)
        return Interval(start, start + self.shape[axis])


def count_stripes(config: StripeConfig, sliding: bool = False) -> dict[tuple[int, ...], int]:
    """Return how many stripes there are of each shape, without what lies outside the extent.

    If ``sliding``, elements that an earlier stripe along the same axis has are not counted again. Stripes without
    any elements left are omitted.
    """
    counts: dict[tuple[int, ...], int] = {}
    axes = [Counter(_lengths(config, axis, sliding)) for axis in range(len(config.shape))]
    for combination in product(*(axis.items() for axis in axes)):
        counts[tuple(length for length, _ in combination)] = prod(count for _, count in combination)
    return counts


def _lengths(config: StripeConfig, axis: int, sliding: bool) -> Iterator[int]:
    """Yield the length of each stripe along an axis."""
    covered = 0
    for number in range(config.stripes[axis]):
        start, stop = config.stripe(axis, number)
        start, stop = max(start, covered if sliding else 0), min(stop, config.extent[axis])
        if start < stop:
            yield stop - start
            covered = stop


def recompute_bytes(config: StripeConfig, element_bytes: int = 1, ratio: float = 1) -> int:
    """Return the bytes of a buffer for one stripe. ``ratio`` is that of the compression, 1 if there is none."""
    return ceil(prod(config.shape) * element_bytes * ratio)


def rolling_bytes(config: StripeConfig, tensor: tuple[int, ...], element_bytes: int = 1, ratio: float = 1) -> int:
    """Return the bytes of a buffer that rolls along the outermost axis with several stripes.

    It is as long as a stripe along that axis, and as the tensor of the shape ``tensor`` along all others. If no axis
    has several stripes, it rolls along the first. Raises ValueError if tensor and stripes differ in rank.
    """
    if len(tensor) != len(config.shape):
        raise ValueError(
            f"rolling buffer: got a tensor of rank {len(tensor)}; expected that of its stripes, {len(config.shape)}"
        )
    extents = list(tensor)
    axis = rolling_axis(config)
    extents[axis] = config.shape[axis]
    return ceil(prod(extents) * element_bytes * ratio)


def rolling_axis(config: StripeConfig) -> int:
    """Return the axis of the outermost loop with more than one stripe, or 0."""
    striped = [axis for axis, stripes in enumerate(config.stripes) if stripes > 1]
    return min(striped, key=lambda axis: config.order[axis], default=0)
