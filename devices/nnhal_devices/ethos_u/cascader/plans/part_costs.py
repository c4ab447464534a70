"""The cycles of a part in a plan of one tile, for each way to cut it."""

from __future__ import annotations

from dataclasses import dataclass

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
        self._known: dict[tuple[int, Axis, int, int, WeightsIn, frozenset[int]], int] = {}

    def cycles(
        self,
        part: int,
        along: Axis,
        extent: int,
        weights: WeightsIn,
        interior: frozenset[int] = frozenset(),
        band: int = 0,
    ) -> int:
        """Return the cycles of a whole part in stripes of ``extent`` elements along an axis.

        ``band`` is the number of rows of its tiles, 0 for one tile. ``interior`` tensors lie between parts of the plan.
        """
        spilled = self._homes.spilled
        if spilled:
            node = self._homes.graph.parts[part]
            interior &= spilled & {node.output, *(each.tensor for each in node.inputs)}
        key = part, along, extent, band, weights, interior if spilled else frozenset()
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._counted(*key)
        return found

    def _counted(
        self, part: int, along: Axis, extent: int, band: int, weights: WeightsIn, interior: frozenset[int]
    ) -> int:
        homes, node = self._homes, self._homes.graph.parts[part]
        places = homes.places(part, weights, interior)
        box = whole(homes.graph.tensors[node.output].shape)
        doubled = weights == WeightsIn.DOUBLE_BUFFERED
        bands = cut(box.rows, band) if band else [box.rows]
        copies = [homes.constants_copy(part, stripe) for stripe in cut(box[along], extent)] if doubled else [0]
        priced: dict[tuple[int, ...], int] = {}
        total = fill = number = 0
        accesses = [each.along(along) for each in node.inputs]
        for rows in bands:
            tile = box.along(Axis.ROWS, rows) if band else box
            others = [each.needs(tile).shape for each in node.inputs]
            heights = tuple(shape.rows for shape in others) if band else ()
            for stripe in cut(box[along], extent):
                lengths = *heights, stripe.length, *(access.needs(stripe).length for access in accesses)
                cycles = priced.get(lengths)
                if cycles is None:
                    needed = lengths[len(heights) + 1 :]
                    shapes = [_along(shape, along, length) for shape, length in zip(others, needed, strict=True)]
                    price = self._pricer.price(part, _along(tile.shape, along, stripe.length), tuple(shapes), places)
                    cycles = priced[lengths] = price.cycles
                    fill = max(fill, price.fill)
                number += 1
                following = copies[number % len(copies)] if number < len(bands) * len(copies) else 0
                total += max(cycles, following)
        return total + fill


def _along(shape: Shape, axis: Axis, length: int) -> Shape:
    extents = list(shape)
    extents[axis] = length
    return Shape(*extents)
