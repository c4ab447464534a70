"""The cycles of a part in a plan, for each way to cut it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from itertools import combinations

from nnhal_cascade.geometry.accesses import AxisAccess
from nnhal_cascade.geometry.box import Axis, Interval, Shape, cut, whole
from nnhal_cascade.performance.price import StripePlaces
from nnhal_cascade.performance.stripe_pricer import StripePricer
from nnhal_cascade.plans.homes import Homes
from nnhal_cascade.plans.plan import WeightsIn

_MARGIN = 64
"""One of so many of a part's least known cycles is taken to be saved by some cut that has not been priced."""

Lengths = tuple[tuple[tuple[int, ...], int], ...]
"""The length of a piece of an axis and of what it needs of each input, with the number of such pieces."""


class PartCosts:
    """The cycles of each part, cut in stripes, without waiting for its constants at the start. Answers are kept.

    They are the same for all homes of one graph on one system: what differs is in the ``places`` that are asked for.
    """

    def __init__(self, homes: Homes, pricer: StripePricer) -> None:
        self._homes, self.pricer = homes, pricer
        self._floors: dict[int, int] = {}
        """For the tensor that a part writes the least cycles that are known of the part, in whichever graph."""
        self._known: dict[tuple[int, Axis, int, tuple[Interval, ...], bool, StripePlaces], int] = {}
        self._copies: dict[tuple[int, Axis, int], int] = {}

    def of(self, homes: Homes) -> PartCosts:
        """Return the costs for another graph of the same tensors, and maybe more, which share what is known."""
        found = PartCosts(homes, self.pricer.of(homes.graph))
        found._floors = self._floors
        return found

    def floor(self, part: int, homes: Homes) -> int:
        """Return the least cycles that are known of a part, at least of it as a whole wherever ``homes`` let it be.

        A stripe that reads from two memories at a time can be faster than one that finds all in the faster one.
        """
        node = self._homes.graph.parts[part]
        weights = WeightsIn.RESIDENT if node.constants else WeightsIn.NONE
        rows, away = self._homes.graph.tensors[node.output].shape.rows, homes.away(part, frozenset())
        for count in {0, 1, len(away)}:
            for some in combinations(away, count):
                self.cycles(part, Axis.ROWS, rows, weights, homes.places_of(part, weights, frozenset(some)))
        return self._floors[node.output] * (_MARGIN - 1) // _MARGIN

    def cycles(
        self,
        part: int,
        along: Axis,
        extent: int,
        weights: WeightsIn,
        places: StripePlaces,
        bands: tuple[Interval, ...] = (),
    ) -> int:
        """Return the cycles of a whole part in stripes of ``extent`` elements along an axis.

        ``bands`` are the rows of its tiles, none for one tile. ``places`` are where its data are, with ``weights``.
        """
        key = part, along, extent, bands, weights == WeightsIn.DOUBLE_BUFFERED, places
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._counted(*key)
            output = self._homes.graph.parts[part].output
            self._floors[output] = min(found, self._floors.get(output, found))
        return found

    def first_copy(self, part: int, along: Axis, extent: int) -> int:
        """Return the cycles of the copy of a part's constants that its first stripe waits for."""
        key = part, along, extent
        found = self._copies.get(key)
        if found is None:
            stripe = Interval(0, extent) if along == Axis.CHANNELS else None
            found = self._copies[key] = self._homes.constants_copy(part, stripe)
        return found

    def later_copies(self, part: int, along: Axis, extent: int) -> int:
        """Return the cycles of the copies of a part's constants for its other stripes, in one tile."""
        if along != Axis.CHANNELS:
            return 0
        channels = self._homes.graph.tensors[self._homes.graph.parts[part].output].shape.channels
        more, rest = divmod(channels - extent, extent)
        return more * self.first_copy(part, along, extent) + (self.first_copy(part, along, rest) if rest else 0)

    def _counted(
        self, part: int, along: Axis, extent: int, bands: tuple[Interval, ...], doubled: bool, places: StripePlaces
    ) -> int:
        """Count the cycles. If the constants are ``doubled``, a stripe lasts as long as the copy for the next one."""
        homes, node = self._homes, self._homes.graph.parts[part]
        box = whole(homes.graph.tensors[node.output].shape)
        stripes = stripe_lengths(tuple(each.along(along) for each in node.inputs), box[along].stop, extent)
        whole_inputs = [each.needs(box).shape for each in node.inputs]
        copies = [0] * len(stripes)
        if doubled:
            copies = [homes.constants_copy(part, Interval(0, lengths[0])) for lengths, _ in stripes]
        heights: Lengths = (((box.rows.stop, *(shape.rows for shape in whole_inputs)), 1),)
        if bands:
            heights = piece_lengths(tuple(each.rows for each in node.inputs), bands)
        total = fill = last = 0
        for tile, tiles in heights:
            output = Shape(tile[0], *box.shape[1:])
            inputs = [Shape(rows, *shape[1:]) for rows, shape in zip(tile[1:], whole_inputs, strict=True)]
            for number, (lengths, count) in enumerate(stripes):
                shapes = tuple(_along(shape, along, length) for shape, length in zip(inputs, lengths[1:], strict=True))
                price = self.pricer.price(part, _along(output, along, lengths[0]), shapes, places)
                fill, last = max(fill, price.fill), price.cycles
                # The stripe that follows the last one of its kind is of the next kind, or the first of the next band.
                total += tiles * (max(price.cycles, copies[number]) * (count - 1))
                total += tiles * max(price.cycles, copies[(number + 1) % len(copies)])
        if doubled:
            total -= max(last, copies[0]) - last
        return total + fill


@lru_cache(maxsize=16384)
def stripe_lengths(accesses: tuple[AxisAccess, ...], length: int, extent: int) -> Lengths:
    """Return the lengths of the stripes of ``extent`` elements into which an axis of ``length`` elements is cut."""
    return _lengths(accesses, cut(Interval(0, length), extent))


@lru_cache(maxsize=16384)
def piece_lengths(accesses: tuple[AxisAccess, ...], pieces: tuple[Interval, ...]) -> Lengths:
    return _lengths(accesses, pieces)


def _lengths(accesses: tuple[AxisAccess, ...], pieces: Iterable[Interval]) -> Lengths:
    found = Counter(
        (piece.length, *(access.needs(piece).length for access in accesses)) for piece in pieces if piece.length
    )
    return tuple(found.items())


def _along(shape: Shape, axis: Axis, length: int) -> Shape:
    extents = list(shape)
    extents[axis] = length
    return Shape(*extents)
