"""The modelled time of every assignment of operations to devices, each in its best order of steps: by exhaustion.

All assignments are looked at at once: what a prefix of steps takes is an array with an axis for each operation, by its
device. No search, no bounds, nothing in common with the partitioner but the figures.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import numpy as np
import numpy.typing as npt

from nnhal_service.partition.problem import Problem

Times = npt.NDArray[np.float64]


def all_assignments_ns(problem: Problem) -> Times:
    """The least time of each assignment over all ways to cut it into steps: an axis for each operation, by device.

    Infinite where an operation is not for its device. Takes as much memory as there are assignments, some times over.
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
    """The sets of operations that can have been done at some time."""
    count = len(problem.reads)
    for size in range(count + 1):
        for numbers in combinations(range(count), size):
            found = frozenset(numbers)
            if all(problem.needs[number] <= found for number in found):
                yield found


def _step_ns(problem: Problem, before: frozenset[int], step: frozenset[int], device: int) -> Times:
    """What a step takes after others, by the devices of those."""
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
