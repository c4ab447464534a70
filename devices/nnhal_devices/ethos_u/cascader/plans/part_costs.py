"""The cycles of a part in a plan of one tile, for each way to cut it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import lru_cache

from nnhal_devices.ethos_u.cascader.geometry.access import AxisAccess
from nnhal_devices.ethos_u.cascader.geometry.box import Axis, Interval, Shape, cut, whole
from nnhal_devices.ethos_u.cascader.graph.cascader_graph import CascaderGraph
from nnhal_devices.ethos_u.cascader.hardware.memory import System
from nnhal_devices.ethos_u.cascader.performance.copying import copy_cycles
from nnhal_devices.ethos_u.cascader.performance.price import StripePlaces
from nnhal_devices.ethos_u.cascader.performance.stripe_pricer import StripePricer
from nnhal_devices.ethos_u.cascader.plans.plan import WeightsIn


@dataclass(frozen=True, slots=True)
class Homes:
    """In which region tensors and constants lie."""

    graph: CascaderGraph
    system: System
    spilled: frozenset[int] = frozenset()
    """Tensors whose home is the spill region."""

    def places(self, part: int, weights: WeightsIn, interior: frozenset[int] = frozenset()) -> StripePlaces:
        """Return where a part finds its data. ``interior`` tensors lie between parts of a plan, in working memory."""
        node, working = self.graph.parts[part], self.system.working.name
        if weights == WeightsIn.NONE:
            constants = ""
        else:
            constants = self.system.constants.name if weights == WeightsIn.STREAMED else working
        return StripePlaces(
            tuple(self._of(each.tensor, interior) for each in node.inputs), self._of(node.output, interior), constants
        )

    def _of(self, tensor: int, interior: frozenset[int]) -> str:
        spill = self.system.spill
        if spill is None or tensor not in self.spilled or tensor in interior:
            return self.system.working.name
        return spill.name

    def constants_bytes(self, part: int, along: Axis, extent: int) -> int:
        """Return the working memory for a part's constants: one buffer, or two for stripes of channels."""
        node = self.graph.parts[part]
        if node.constants is None:
            return 0
        if along == Axis.CHANNELS:
            return 2 * node.constants.bytes_of(Interval(0, extent))
        return node.constants.bytes_of(Interval(0, self.graph.tensors[node.output].shape.channels))

    def constants_copy(self, part: int, channels: Interval | None = None) -> int:
        """Return the cycles of copying a part's constants, or those of some channels, to the working memory."""
        node = self.graph.parts[part]
        if node.constants is None:
            return 0
        channels = channels or Interval(0, self.graph.tensors[node.output].shape.channels)
        count = node.constants.bytes_of(channels)
        return copy_cycles(self.system, self.system.constants.name, self.system.working.name, count)


class PartCosts:
    """The cycles of each part, cut in stripes, without waiting for its constants at the start. Answers are kept."""

    def __init__(self, homes: Homes, pricer: StripePricer) -> None:
        self._homes, self._pricer = homes, pricer
        self._known: dict[tuple[int, Axis, int, tuple[Interval, ...], WeightsIn, frozenset[int]], int] = {}
        self._copies: dict[tuple[int, Axis, int], int] = {}

    def cycles(
        self,
        part: int,
        along: Axis,
        extent: int,
        weights: WeightsIn,
        interior: frozenset[int] = frozenset(),
        bands: tuple[Interval, ...] = (),
    ) -> int:
        """Return the cycles of a whole part in stripes of ``extent`` elements along an axis.

        ``bands`` are the rows of its tiles, none for one tile. ``interior`` tensors lie between parts of the plan.
        """
        spilled = self._homes.spilled
        if spilled:
            node = self._homes.graph.parts[part]
            interior &= spilled & {node.output, *(each.tensor for each in node.inputs)}
        key = part, along, extent, bands, weights, interior if spilled else frozenset()
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._counted(*key)
        return found

    def first_copy(self, part: int, along: Axis, extent: int) -> int:
        """Return the cycles of the copy of a part's constants that its first stripe waits for."""
        key = part, along, extent
        found = self._copies.get(key)
        if found is None:
            stripe = Interval(0, extent) if along == Axis.CHANNELS else None
            found = self._copies[key] = self._homes.constants_copy(part, stripe)
        return found

    def _counted(
        self,
        part: int,
        along: Axis,
        extent: int,
        bands: tuple[Interval, ...],
        weights: WeightsIn,
        interior: frozenset[int],
    ) -> int:
        homes, node = self._homes, self._homes.graph.parts[part]
        places = homes.places(part, weights, interior)
        box = whole(homes.graph.tensors[node.output].shape)
        heights = lengths_of(tuple(each.rows for each in node.inputs), bands)
        stripes = lengths_of(tuple(each.along(along) for each in node.inputs), tuple(cut(box[along], extent)))
        whole_inputs = [each.needs(box).shape for each in node.inputs]
        copies = [0] * len(stripes)
        if weights == WeightsIn.DOUBLE_BUFFERED:
            copies = [homes.constants_copy(part, Interval(0, lengths[0])) for lengths, _ in stripes]
        total = fill = last = 0
        if not bands:
            heights = (((box.rows.stop, *(shape.rows for shape in whole_inputs)), 1),)
        for tile, tiles in heights:
            output = Shape(tile[0], *box.shape[1:])
            inputs = [Shape(rows, *shape[1:]) for rows, shape in zip(tile[1:], whole_inputs, strict=True)]
            for number, (lengths, count) in enumerate(stripes):
                shapes = tuple(_along(shape, along, length) for shape, length in zip(inputs, lengths[1:], strict=True))
                price = self._pricer.price(part, _along(output, along, lengths[0]), shapes, places)
                fill, last = max(fill, price.fill), price.cycles
                # The stripe that follows the last one of its kind is of the next kind, or the first of the next band.
                total += tiles * (max(price.cycles, copies[number]) * (count - 1))
                total += tiles * max(price.cycles, copies[(number + 1) % len(copies)])
        if weights == WeightsIn.DOUBLE_BUFFERED:
            total -= max(last, copies[0]) - last
        return total + fill


@lru_cache(maxsize=16384)
def lengths_of(
    accesses: tuple[AxisAccess, ...], pieces: tuple[Interval, ...]
) -> tuple[tuple[tuple[int, ...], int], ...]:
    """Return the length of each piece of an axis and of what it needs of each input, with the number of such pieces."""
    found = Counter(
        (piece.length, *(access.needs(piece).length for access in accesses)) for piece in pieces if piece.length
    )
    return tuple(found.items())


def _along(shape: Shape, axis: Axis, length: int) -> Shape:
    extents = list(shape)
    extents[axis] = length
    return Shape(*extents)
