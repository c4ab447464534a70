"""The modelled time of every assignment of operations to devices, each in its best order of steps, by exhaustion.

All assignments are computed at once: the time of a prefix of steps is an array with an axis for each operation, indexed
by its device. There is no search and no bound, and only the figures are shared with the partitioner.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import numpy as np
import numpy.typing as npt

from nnhal_service.partition.problem import Problem

Times = npt.NDArray[np.float64]


def all_assignments_ns(problem: Problem) -> Times:
    """Return the least time of each assignment over all ways to cut it into steps: an axis per operation, by device.

    It is infinite if a device does not support its operation. The memory needed is a multiple of the number of
    assignments.
    """
    count, devices = len(problem.reads), len(problem.devices)
    done = sorted(_prefixes(problem), key=len)
    shape = {prefix: tuple(devices if number in prefix else 1 for number in range(count)) for prefix in done}
    best = {prefix: np.full(shape[prefix], np.inf) for prefix in done}
    best[frozenset()] = np.zeros(shape[frozenset()])
    for before in done:
        for after in done:
            if before < after:
                step = after - before
                for device in range(devices):
                    where = tuple(device if number in step else slice(None) for number in range(count))
                    time = (best[before] + _step_ns(problem, before, step, device))[
                        tuple(0 if number in step else slice(None) for number in range(count))
                    ]
                    best[after][where] = np.minimum(best[after][where], time)
    return best[frozenset(range(count))]


def _prefixes(problem: Problem) -> Iterator[frozenset[int]]:
    """Yield every set of operations that is closed under dependencies."""
    count = len(problem.reads)
    for size in range(count + 1):
        for numbers in combinations(range(count), size):
            found = frozenset(numbers)
            if all(problem.needs[number] <= found for number in found):
                yield found


def _step_ns(problem: Problem, before: frozenset[int], step: frozenset[int], device: int) -> Times:
    """Return the time of a step after the operations of ``before``, by the devices of those."""
    count = len(problem.reads)
    writers = {operand: number for number, written in enumerate(problem.writes) for operand in written}
    fixed = problem.step_ns[device] + sum(problem.operation_ns[number][device] for number in step)
    for number in step:
        values = [problem.values[operand] for operand in problem.writes[number]]
        fixed += sum(value.export_ns[device + 1] for value in values if value.is_output)
    total = np.full((1,) * count, fixed)
    for operand in {operand for number in step for operand in problem.reads[number]}:
        edges = problem.values[operand].edge_ns
        if operand not in writers:
            total = total + edges[0][device]
        elif writers[operand] in before:
            axis = writers[operand]
            by_source = np.array([edges[source + 1][device] for source in range(len(problem.devices))])
            total = total + by_source.reshape([-1 if number == axis else 1 for number in range(count)])
    return total
