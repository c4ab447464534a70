"""When tensors live, counted in parts."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from nnhal_cascade.graph.cascader_graph import CascaderGraph


class Lifetimes:
    """The lifetimes of a graph's tensors: alive from before part ``born`` up to and with part ``last``."""

    def __init__(self, graph: CascaderGraph) -> None:
        self._graph = graph
        self.born = [0 if producer is None else producer + 1 for producer in graph.producers]
        self.last = [
            len(graph.parts)
            if tensor.is_output
            else max(graph.consumers[tensor.index], default=self.born[tensor.index] - 1)
            for tensor in graph.tensors
        ]

    def dying(self, first: int, stop: int) -> tuple[int, ...]:
        """Return the tensors that are alive before part ``first`` and read for the last time before part ``stop``."""
        read = {each.tensor: None for part in self._graph.parts[first:stop] for each in part.inputs}
        return tuple(tensor for tensor in read if self.born[tensor] <= first and self.last[tensor] < stop)

    def escaping(self, first: int, stop: int) -> tuple[int, ...]:
        """Return what the parts from ``first`` up to, and without, the last write that is needed after them."""
        written = (part.output for part in self._graph.parts[first : stop - 1])
        return tuple(tensor for tensor in written if self.last[tensor] >= stop)

    def alive_bytes(self, sizes: Sequence[int]) -> list[int]:
        """Return the bytes that are alive before each part, and after the last. ``sizes`` are those of the tensors."""
        changes = [0] * (len(self._graph.parts) + 2)
        for size, born, last in zip(sizes, self.born, self.last, strict=True):
            changes[born] += size
            changes[last + 1] -= size
        return list(accumulate(changes[:-1]))
