"""Group operations by device, by NNAPI's rule."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from nnhal.types import Subgraph

Group = tuple[int, tuple[int, ...]]
"""The number of a queue (a device), and operations in the order in which they are taken."""


def dependencies(graph: Subgraph) -> list[frozenset[int]]:
    """Return, for each operation, the operations whose results it reads."""
    producers = {operand: n for n, operation in enumerate(graph.operations) for operand in operation.outputs}
    return [frozenset(producers[i] for i in operation.inputs if i in producers) for operation in graph.operations]


def grow(needs: Sequence[frozenset[int]], queues: Sequence[int]) -> list[Group]:
    """Return groups in an order in which they can be executed. ``queues`` has the queue of each operation.

    The highest queue with ready operations is drained into one group: every operation of the queue that is ready, and
    those that become ready by it. Then the next group is made.
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
