"""Groups of a file's nodes that devices take, between nodes that are left to who has the file.

A group becomes one node of the caller's graph. So no path may lead out of a group and back into it, and the graph of
all groups may have no cycle.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence

from nnhal_frontends.imported import FileNode


class NodeGraph:
    """The nodes of a file, by index, and which of them read what others write."""

    def __init__(self, nodes: Sequence[FileNode], constants: Collection[str]) -> None:
        """``constants`` are values that no node writes and no run changes. Nodes are in an order of execution."""
        self.nodes = nodes
        writers = {name: index for index, node in enumerate(nodes) for name in node.writes if name}
        self.before = [{writers[name] for name in node.reads if name in writers} for node in nodes]
        self.readers: list[set[int]] = [set() for _ in nodes]
        self.constant: set[int] = set()
        """Nodes that compute constants: they go with those that read them."""
        for index, node in enumerate(nodes):
            for writer in self.before[index]:
                self.readers[writer].add(index)
            if all(not name or name in constants or writers.get(name) in self.constant for name in node.reads):
                self.constant.add(index)

    def clusters(self, together: Iterable[Collection[int]]) -> list[int]:
        """Return for each node the number of its cluster: nodes that are one operation ``together`` are in one.

        Constants are not, since several operations may read one.
        """
        found = list(range(len(self.nodes)))

        def root(index: int) -> int:
            while found[index] != index:
                found[index] = index = found[found[index]]
            return index

        for members in together:
            first, *others = [index for index in members if index not in self.constant] or [next(iter(members))]
            for other in others:
                found[root(other)] = root(first)
        return [root(index) for index in range(len(found))]

    def groups(self, taken: Collection[int], clusters: Sequence[int]) -> list[list[int]]:
        """Return the groups of the nodes that are ``taken``, in an order of execution, each ascending.

        Clusters are of such nodes only, and stay whole unless a path leads out of one and back into it.
        """
        level = _Levels(self, taken, clusters).level
        for index in sorted(self.constant, reverse=True):
            wanted = {level.get(reader) for reader in self.readers[index]}
            if index in taken and len(wanted) == 1 and (only := next(iter(wanted))) is not None:
                level[index] = only
        found: dict[int, list[int]] = {}
        for index in sorted(level):
            found.setdefault(level[index], []).append(index)
        return [found[number] for number in sorted(found)]

    def subsets(self, taken: Collection[int]) -> list[list[int]]:
        """Return the groups that an interpreter of TFLite makes of the nodes that are ``taken``, each ascending.

        It runs as many nodes of a kind as it can, then as many of the other kind, beginning with the kind of the first.
        """
        turns: list[int] = []
        for index, before in enumerate(self.before):
            is_taken = index in taken
            earliest = (turns[each] + ((each in taken) != is_taken) for each in before)
            turns.append(max(earliest, default=int(is_taken != (0 in taken))))
        found: dict[int, list[int]] = {}
        for index in sorted(taken):
            found.setdefault(turns[index], []).append(index)
        return [found[turn] for turn in sorted(found)]


class _Levels:
    """Sorts nodes into levels: those that are left before group 0, group 0, those that are left after it, and so on.

    ``level`` has the group of each node that is taken and computes no constant.
    """

    def __init__(self, graph: NodeGraph, taken: Collection[int], clusters: Sequence[int]) -> None:
        self._graph, self._taken = graph, taken
        self._clusters = dict(enumerate(clusters))
        for constant in graph.constant:
            del self._clusters[constant]
        while stuck := self._sort():
            self._clusters.update((index, index) for index in stuck)
        for number in sorted(set(self.level.values()), reverse=True):
            self._bring_together(number)

    def _sort(self) -> list[int]:
        """Give each node its level. Return those that have none, since a path leads out of a cluster and into it."""
        self.level: dict[int, int] = {}
        self._left: dict[int, int] = {}  # the group that comes next
        members: dict[int, list[int]] = {}
        for index, cluster in self._clusters.items():
            members.setdefault(cluster, []).append(index)
        readers: dict[int, set[int]] = {
            cluster: {self._clusters[r] for index in own for r in self._graph.readers[index]} - {cluster}
            for cluster, own in members.items()
        }
        missing = Counter(reader for found in readers.values() for reader in found)
        ready: tuple[list[int], list[int]] = [], []
        for cluster in members:
            if not missing[cluster]:
                ready[cluster in self._taken].append(cluster)
        number = 0
        while any(ready):
            for is_taken, level in enumerate((self._left, self.level)):
                while ready[is_taken]:
                    cluster = ready[is_taken].pop()
                    level.update(dict.fromkeys(members.pop(cluster), number))
                    for reader in readers[cluster]:
                        missing[reader] -= 1
                        if not missing[reader]:
                            ready[reader in self._taken].append(reader)
            number += 1
        return [index for own in members.values() for index in own]

    def _bring_together(self, number: int) -> None:
        """Move parts of a group, which have nothing to do with one another, to the later groups that read them."""
        part = {index: index for index, level in self.level.items() if level == number}

        def root(index: int) -> int:
            while part[index] != index:
                part[index] = index = part[part[index]]
            return index

        for index in part:
            for other in (self._clusters[index], *self._graph.readers[index]):
                if other in part:
                    part[root(other)] = root(index)
        latest: dict[int, tuple[int, bool]] = {}
        for index in part:
            for reader in self._graph.readers[index] - part.keys():
                taken = self.level.get(reader)
                bound = (self._left[reader] - 1, False) if taken is None else (taken, True)
                latest[root(index)] = min(latest.get(root(index), bound), bound)
        for index in part:
            group, is_read = latest.get(root(index), (number, False))
            if is_read:
                self.level[index] = group
