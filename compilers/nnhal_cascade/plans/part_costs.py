"""The cycles of a part in a plan, for each way to cut it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from itertools import combinations

from nnhal_cascade.geometry.accesses import AxisAccess
from nnhal_cascade.geometry.box import Axis, Interval, Shape, cut, whole
from nnhal_cascade.graph.cascader_graph import Part, PartConstants
from nnhal_cascade.performance.price import StripePlaces
from nnhal_cascade.performance.stripe_pricer import StripePricer
from nnhal_cascade.performance.workload import PartWorkload, workload_of
from nnhal_cascade.plans.growth import Growth
from nnhal_cascade.plans.homes import Homes
from nnhal_cascade.plans.plan import WeightsIn

_MARGIN = 64
"""One of so many of a part's least known cycles is taken to be saved by some cut that has not been priced."""

Cut = tuple[int, Axis, int, tuple[Interval, ...], frozenset[int]]
"""A part in a plan, as far as its cycles depend on it: the axis and the extent of its stripes, the rows of its bands,
and the tensors that it touches in the spill region."""

_Kind = tuple[PartWorkload, tuple[tuple[AxisAccess, AxisAccess, AxisAccess], ...], PartConstants | None]
"""Kind of a part, on which its cycles depend: equal parts have equal kinds."""

Lengths = tuple[tuple[tuple[int, ...], int], ...]
"""The length of a piece of an axis and of what it needs of each input, with the number of such pieces."""


class PartCosts:
    """The cycles of each part, cut in stripes, without waiting for its constants at the start. Answers are kept.

    They are the same for all homes of one graph on one system: what differs is in the ``places`` that are asked for.
    Equal parts share their answers, in whichever graph they are.
    """

    def __init__(self, homes: Homes, pricer: StripePricer, shared: PartCosts | None = None) -> None:
        self._homes, self.pricer = homes, pricer
        self._kinds: dict[_Kind, int] = shared._kinds if shared else {}
        self._floors: dict[int, int] = shared._floors if shared else {}
        """For the tensor that a part writes the least cycles that are known of the part, in whichever graph."""
        self._known: dict[tuple[int, Axis, int, tuple[Interval, ...], bool, StripePlaces], int] = (
            shared._known if shared else {}
        )
        self._streamed: dict[Cut, tuple[int, int]] = {}
        self._copied: dict[Cut, tuple[int, int]] = {}
        self._copies: dict[tuple[int, Axis, int], int] = {}
        self.growths: dict[tuple[int, Axis, int, bool, int], Growth] = {}
        """The groups that end with a part, by how they are cut."""
        self._kind_of = [self._kinds.setdefault(self._kind(part), len(self._kinds)) for part in homes.graph.parts]

    def of(self, homes: Homes) -> PartCosts:
        """Return the costs for another graph of the same tensors, and maybe more, which share what is known."""
        return PartCosts(homes, self.pricer.of(homes.graph), self)

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
        doubled = weights == WeightsIn.DOUBLE_BUFFERED
        key = self._kind_of[part], along, extent, bands, doubled, places
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._counted(part, along, extent, bands, doubled, places)
        output = self._homes.graph.parts[part].output
        if found < self._floors.get(output, found + 1):
            self._floors[output] = found
        return found

    def streamed(self, cut: Cut) -> tuple[int, int]:
        """Return the cycles of a part whose constants are streamed, and the bytes that it takes to copy them."""
        found = self._streamed.get(cut)
        if found is None:
            part, along, extent, bands, away = cut
            where = WeightsIn.NONE if self._homes.graph.parts[part].constants is None else WeightsIn.STREAMED
            cycles = self.cycles(part, along, extent, where, self._homes.places_of(part, where, away), bands)
            found = self._streamed[cut] = cycles, self._homes.constants_bytes(part, along, extent)
        return found

    def copied(self, cut: Cut) -> tuple[int, int]:
        """Return the cycles of a part whose constants are copied, and if no stripe waits for its copy."""
        found = self._copied.get(cut)
        if found is None:
            part, along, extent, bands, away = cut
            where = copied_to(along)
            places = self._homes.places_of(part, where, away)
            cycles = self.cycles(part, along, extent, where, places, bands)
            ready = self.cycles(part, along, extent, WeightsIn.RESIDENT, places, bands)
            found = self._copied[cut] = cycles, ready
        return found

    def _kind(self, part: Part) -> _Kind:
        accesses = tuple((each.rows, each.columns, each.channels) for each in part.inputs)
        return workload_of(self._homes.graph, part), accesses, part.constants

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


def copied_to(along: Axis) -> WeightsIn:
    """Return where the constants of a plan's parts are if they are copied."""
    return WeightsIn.DOUBLE_BUFFERED if along == Axis.CHANNELS else WeightsIn.RESIDENT


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
