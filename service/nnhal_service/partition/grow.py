"""Growing groups of operations from an assignment: NNAPI's rule."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from nnhal.types import Subgraph

Group = tuple[int, tuple[int, ...]]
"""A queue's number, and operations in the order in which they are taken."""


def dependencies(graph: Subgraph) -> list[frozenset[int]]:
    """The operations whose results each operation reads."""
    producers = {operand: n for n, operation in enumerate(graph.operations) for operand in operation.outputs}
    return [frozenset(producers[i] for i in operation.inputs if i in producers) for operation in graph.operations]


def grow(needs: Sequence[frozenset[int]], queues: Sequence[int]) -> list[Group]:
    """Groups in an order in which they can be executed; ``queues`` of each operation, by number.

    The highest queue that is not empty is drained: a group takes every operation of its queue that is ready, and those
    that it makes ready.
    """
    missing = [set(operations) for operations in needs]
    consumers: list[list[int]] = [[] for _ in needs]
    for number, operations in enumerate(needs):
        for producer in sorted(operations):
            consumers[producer].append(number)
    ready: list[deque[int]] = [deque() for _ in range(max(queues, default=-1) + 1)]
    for number, operations in enumerate(needs):
        if not operations:
            ready[queues[number]].append(number)
    groups: list[Group] = []
    while any(ready):
        chosen = max(number for number, queue in enumerate(ready) if queue)
        taken = []
        while ready[chosen]:
            number = ready[chosen].popleft()
            taken.append(number)
            for consumer in consumers[number]:
                missing[consumer].discard(number)
                if not missing[consumer]:
                    ready[queues[consumer]].append(consumer)
        groups.append((chosen, tuple(taken)))
    return groups
