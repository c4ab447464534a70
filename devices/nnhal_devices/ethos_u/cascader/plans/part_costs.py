"""The cycles of a part in a plan of one tile, for each way to cut it."""

from __future__ import annotations

from dataclasses import dataclass

from nnhal_devices.ethos_u.cascader.geometry.box import Axis, Interval, Shape, whole
from nnhal_devices.ethos_u.cascader.graph.cascader_graph import CascaderGraph
from nnhal_devices.ethos_u.cascader.hardware.memory import System
from nnhal_devices.ethos_u.cascader.performance.stripe_pricer import Places, StripePricer, copy_cycles
from nnhal_devices.ethos_u.cascader.plans.plan import WeightsIn


@dataclass(frozen=True, slots=True)
class Homes:
    """In which region tensors and constants lie."""

    graph: CascaderGraph
    system: System
    spilled: frozenset[int] = frozenset()
    """Tensors whose home is the spill region."""

    def places(self, part: int, weights: WeightsIn, interior: frozenset[int] = frozenset()) -> Places:
        """Return where a part finds its data. ``interior`` tensors lie between parts of a plan, in working memory."""
        node, working = self.graph.parts[part], self.system.working.name
        if weights == WeightsIn.NONE:
            constants = ""
        else:
            constants = self.system.constants.name if weights == WeightsIn.STREAMED else working
        return Places(
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
    """The cycles of each part, cut in stripes along an axis. Answers are kept."""

    def __init__(self, homes: Homes, pricer: StripePricer) -> None:
        self._homes, self._pricer = homes, pricer
        self._known: dict[tuple[int, Axis, int, WeightsIn, frozenset[int]], int] = {}

    def cycles(
        self, part: int, along: Axis, extent: int, weights: WeightsIn, interior: frozenset[int] = frozenset()
    ) -> int:
        """Return the cycles of a whole part in stripes of ``extent`` elements, with the copies of its constants.

        Of ``interior`` only what the part touches counts, and only if it is spilled otherwise.
        """
        if self._homes.spilled:
            node = self._homes.graph.parts[part]
            interior &= self._homes.spilled & {node.output, *(each.tensor for each in node.inputs)}
        else:
            interior = frozenset()
        key = part, along, extent, weights, interior
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._counted(*key)
        return found

    def _counted(self, part: int, along: Axis, extent: int, weights: WeightsIn, interior: frozenset[int]) -> int:
        homes, node = self._homes, self._homes.graph.parts[part]
        places = homes.places(part, weights, interior)
        box = whole(homes.graph.tensors[node.output].shape)
        accesses = [each.along(along) for each in node.inputs]
        others = [each.needs(box).shape for each in node.inputs]
        doubled = weights == WeightsIn.DOUBLE_BUFFERED
        priced: dict[tuple[int, ...], int] = {}
        total = fill = before = 0
        for start in range(0, box[along].stop, extent):
            stripe = Interval(start, min(start + extent, box[along].stop))
            lengths = stripe.length, *(access.needs(stripe).length for access in accesses)
            cycles = priced.get(lengths)
            if cycles is None:
                shapes = [_along(shape, along, length) for shape, length in zip(others, lengths[1:], strict=True)]
                price = self._pricer.price(part, _along(box.shape, along, stripe.length), tuple(shapes), places)
                cycles = priced[lengths] = price.cycles
                fill = max(fill, price.fill)
            if doubled:
                total += max(before, homes.constants_copy(part, stripe))
                before = cycles
            else:
                total += cycles
        if weights == WeightsIn.RESIDENT:
            total += homes.constants_copy(part)
        return total + before + fill


def _along(shape: Shape, axis: Axis, length: int) -> Shape:
    extents = list(shape)
    extents[axis] = length
    return Shape(*extents)
