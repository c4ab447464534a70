"""In which region tensors and constants lie, and what of them is in the working memory, part by part."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from nnhal_cascade.geometry.box import Axis, Interval
from nnhal_cascade.graph.cascader_graph import CascaderGraph
from nnhal_cascade.hardware.memory import System
from nnhal_cascade.performance.price import StripePlaces, copy_cycles
from nnhal_cascade.plans.plan import WeightsIn


class Homes:
    """The regions of a graph's tensors and constants on a system."""

    def __init__(self, graph: CascaderGraph, system: System, spilled: frozenset[int] = frozenset()) -> None:
        self.graph, self.system = graph, system
        self.spilled = spilled if system.spill else frozenset()
        """Tensors whose home is the spill region."""
        self.sizes = [0 if each.index in self.spilled else each.bytes for each in graph.tensors]
        """The bytes of each tensor in the working memory, if it is kept as a whole."""
        self._working, self._rest = system.working.name, system.constants.name
        self._spill = system.spill.name if system.spill else self._working
        self._places: dict[tuple[int, WeightsIn, frozenset[int]], StripePlaces] = {}
        self._away = [
            self.spilled.intersection((part.output, *(each.tensor for each in part.inputs))) for part in graph.parts
        ]

    def places(self, part: int, weights: WeightsIn, interior: frozenset[int] = frozenset()) -> StripePlaces:
        """Return where a part finds its data. ``interior`` tensors lie between parts of a plan, in working memory."""
        return self.places_of(part, weights, self.away(part, interior))

    def away(self, part: int, interior: frozenset[int]) -> frozenset[int]:
        """Return the tensors that a part touches in the spill region."""
        away = self._away[part]
        return away - interior if away else away

    def places_of(self, part: int, weights: WeightsIn, away: frozenset[int]) -> StripePlaces:
        """Return where a part finds its data if it touches the tensors ``away`` in the spill region."""
        key = part, weights, away
        found = self._places.get(key)
        if found is None:
            found = self._places[key] = self._found(*key)
        return found

    def _found(self, part: int, weights: WeightsIn, away: frozenset[int]) -> StripePlaces:
        node = self.graph.parts[part]
        inputs = tuple(self._spill if each.tensor in away else self._working for each in node.inputs)
        output = self._spill if node.output in away else self._working
        if weights == WeightsIn.NONE:
            return StripePlaces(inputs, output, "")
        return StripePlaces(inputs, output, self._rest if weights == WeightsIn.STREAMED else self._working)

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
        return copy_cycles(self.system, self._rest, self._working, node.constants.bytes_of(channels))


class Lifetimes:
    """The lifetimes of a graph's tensors: alive from before part ``born`` up to and with part ``last``."""

    def __init__(self, graph: CascaderGraph) -> None:
        self.graph = graph
        self.born = [0 if producer is None else producer + 1 for producer in graph.producers]
        self.last = [
            len(graph.parts)
            if tensor.is_output
            else max(graph.consumers[tensor.index], default=self.born[tensor.index] - 1)
            for tensor in graph.tensors
        ]

    def dying(self, first: int, stop: int) -> tuple[int, ...]:
        """Return the tensors that are alive before part ``first`` and read for the last time before part ``stop``."""
        read = {each.tensor: None for part in self.graph.parts[first:stop] for each in part.inputs}
        return tuple(tensor for tensor in read if self.born[tensor] <= first and self.last[tensor] < stop)

    def escaping(self, first: int, stop: int) -> tuple[int, ...]:
        """Return what the parts from ``first`` up to, and without, the last write that is needed after them."""
        written = (part.output for part in self.graph.parts[first : stop - 1])
        return tuple(tensor for tensor in written if self.last[tensor] >= stop)

    def alive_bytes(self, sizes: Sequence[int]) -> list[int]:
        """Return the bytes that are alive before each part, and after the last. ``sizes`` are those of the tensors."""
        changes = [0] * (len(self.graph.parts) + 2)
        for size, born, last in zip(sizes, self.born, self.last, strict=True):
            changes[born] += size
            changes[last + 1] -= size
        return list(accumulate(changes[:-1]))


class WorkingSet:
    """Buffers in the working memory if nothing is cascaded."""

    def __init__(self, homes: Homes) -> None:
        self.graph, self.spilled = homes.graph, homes.spilled
        self.lifetimes = Lifetimes(homes.graph)
        self.sizes = homes.sizes
        """The bytes of each tensor."""
        self.alive = self.lifetimes.alive_bytes(homes.sizes)
        """The bytes that are alive before each part, and after the last."""
