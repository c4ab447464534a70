"""When tensors live, counted in parts."""

from __future__ import annotations

from dataclasses import dataclass

from nnhal_devices.ethos_u.cascader.graph.cascader_graph import CascaderGraph


@dataclass(frozen=True, slots=True)
class GroupTensors:
    """The tensors of a group of consecutive parts."""

    through: tuple[int, ...]
    """Alive before and after it. The group may read them."""
    dying: tuple[int, ...]
    """Alive before it, and read for the last time by it."""
    escaping: tuple[int, ...]
    """Written by a part of it other than the last, and needed after it."""


class Lifetimes:
    """The lifetimes of a graph's tensors: alive from before part ``born`` up to and with part ``last``."""

    def __init__(self, graph: CascaderGraph) -> None:
        count = len(graph.parts)
        self.born = [0 if producer is None else producer + 1 for producer in graph.producers]
        self.last = [
            count if tensor.is_output else max(graph.consumers[tensor.index], default=self.born[tensor.index] - 1)
            for tensor in graph.tensors
        ]
        self._before: list[list[int]] = [[] for _ in range(count + 1)]
        for tensor, (born, last) in enumerate(zip(self.born, self.last, strict=True)):
            for part in range(born, min(last, count) + 1):
                self._before[part].append(tensor)
        self._written = [part.output for part in graph.parts]

    def of_group(self, first: int, stop: int) -> GroupTensors:
        """Return the tensors of the parts from ``first`` up to, and without, ``stop``."""
        before = self._before[first]
        return GroupTensors(
            tuple(tensor for tensor in before if self.last[tensor] >= stop),
            tuple(tensor for tensor in before if self.last[tensor] < stop),
            tuple(tensor for tensor in self._written[first : stop - 1] if self.last[tensor] >= stop),
        )
