"""Layers and host operators as the vertices of a graph, in which layers grow together without ever closing a cycle."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

from nnhal_mlip.flow.flow_partition import FlowKernel
from nnhal_mlip.flow.graph.flow_graph import FlowGraph, FlowNode


@dataclass(frozen=True, slots=True)
class FlowVertex:
    """Nodes that are on one side as a whole: a layer, an operator of the host, or a tuple of values."""

    nodes: tuple[FlowNode, ...] = ()
    kernels: tuple[FlowKernel, ...] = ()
    """Empty for an operator of the host, and for a tuple."""
    fields: tuple[str, ...] = ()
    """The values of a tuple. It is the accelerator's."""

    @property
    def on_accelerator(self) -> bool:
        return bool(self.kernels or self.fields)

    def reads(self) -> Iterator[str]:
        """Yield what it reads of others, in order; perhaps constants, perhaps a value twice."""
        made = {name for node in self.nodes for name in node.outputs}
        yield from self.fields
        yield from (name for node in self.nodes for name in node.inputs if name not in made)


def vertices(graph: FlowGraph, groups: Iterable[Sequence[FlowKernel]]) -> list[FlowVertex]:
    """Return a vertex for each group of layers and for each other node, by the position of the last node of each."""
    group_of: dict[str, Sequence[FlowKernel]] = {}
    last: dict[str, FlowVertex] = {}
    position = {node.output: number for number, node in enumerate(graph.nodes)}
    for group in groups:
        nodes = tuple(node for kernel in group for node in kernel.nodes)
        group_of.update(dict.fromkeys((node.output for node in nodes), group))
        last[max((node.output for node in nodes), key=position.__getitem__)] = FlowVertex(nodes, tuple(group))
    found: list[FlowVertex] = []
    for node in graph.nodes:
        if node.output in last:
            found.append(last[node.output])
        elif node.output not in group_of:
            found.append(FlowVertex((node,)))
    return found


class FlowRegions:
    """Sets of vertices that can be merged, any two of them."""

    def __init__(self, members: Sequence[FlowVertex]) -> None:
        self.members = members
        self._root = list(range(len(members)))
        self._parents: dict[int, set[int]] = defaultdict(set)
        self._children: dict[int, set[int]] = defaultdict(set)
        makers = {
            name: number for number, vertex in enumerate(members) for node in vertex.nodes for name in node.outputs
        }
        for number, vertex in enumerate(members):
            for name in vertex.reads():
                if name in makers:
                    self._parents[number].add(makers[name])
                    self._children[makers[name]].add(number)

    def of(self, number: int) -> int:
        """Return the region of a vertex, as the number of one of its vertices."""
        while self._root[number] != number:
            number = self._root[number]
        return number

    def parents(self, region: int) -> list[int]:
        return sorted(self._parents[region])

    def may_absorb(self, region: int, parent: int) -> bool:
        """Return whether no other way than the direct one leads from the parent to the region.

        If one did, the two as one would depend on what depends on them.
        """
        pending = [each for each in self._parents[region] if each != parent]
        seen = set(pending)
        while pending:
            for each in self._parents[pending.pop()]:
                if each == parent:
                    return False
                if each not in seen:
                    seen.add(each)
                    pending.append(each)
        return True

    def absorb(self, region: int, parent: int) -> None:
        self._root[parent] = region
        for far, near in ((self._parents, self._children), (self._children, self._parents)):
            for other in far.pop(parent, set()):
                near[other].discard(parent)
                if other != region:
                    near[other].add(region)
                    far[region].add(other)
            far[region].discard(parent)

    def order(self) -> list[int]:
        """Return the regions in an order in which they can be computed, otherwise in that of their vertices."""
        regions = sorted({self.of(number) for number in range(len(self.members))})
        waits = {region: len(self._parents[region]) for region in regions}
        ready = [region for region in regions if not waits[region]]
        heapify(ready)
        found: list[int] = []
        while ready:
            found.append(heappop(ready))
            for child in self._children[found[-1]]:
                waits[child] -= 1
                if not waits[child]:
                    heappush(ready, child)
        return found
