"""Partitions that are too small go to a neighbour, or to the CPU."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nnhal_service.partition.grow import Group, grow
from nnhal_service.partition.problem import Problem


def merge_small(problem: Problem, groups: Sequence[Group], minimum: int, cpu: str) -> tuple[Group, ...]:
    """The groups, after those of less than ``minimum`` operations went to a device that has a neighbour of theirs.

    Of several such devices it is the one that is fastest for them; where there is none, the CPU. Groups on the CPU may
    be of any size, and so may those that nobody else may take. No operation goes back to a device that it left, so this
    ends.
    """
    devices = [0] * len(problem.reads)
    for device, operations in groups:
        for number in operations:
            devices[number] = device
    left: list[set[int]] = [set() for _ in devices]
    current = tuple(groups)
    while moves := _moves(problem, current, minimum, cpu, left):
        for operations, device in moves:
            for number in operations:
                left[number].add(devices[number])
                devices[number] = device
        current = tuple(grow(problem.needs, devices))
    return current


def _moves(
    problem: Problem, groups: Sequence[Group], minimum: int, cpu: str, left: Sequence[set[int]]
) -> list[tuple[tuple[int, ...], int]]:
    """Which groups go where in one round: none to a group that goes itself, and none that another one comes to."""
    place = {number: step for step, (_, operations) in enumerate(groups) for number in operations}
    home = problem.devices.index(cpu) if cpu in problem.devices else -1
    moves = []
    settled: set[int] = set()
    for step, (device, operations) in enumerate(groups):
        if len(operations) >= minimum or device == home or step in settled:
            continue
        able = {
            other: sum(problem.operation_ns[number][other] for number in operations)
            for other in range(len(problem.devices))
            if other != device
            and all(other in problem.allowed[number] and other not in left[number] for number in operations)
        }
        near = dict.fromkeys(place[number] for number in _neighbours(problem, operations) if place[number] != step)
        open_to = [n for n in near if n not in settled and groups[n][0] in able]
        if open_to:
            target = min(open_to, key=lambda n: able[groups[n][0]])
            moves.append((operations, groups[target][0]))
            settled |= {step, target}
        elif home in able:
            moves.append((operations, home))
            settled.add(step)
    return moves


def _neighbours(problem: Problem, operations: Sequence[int]) -> Iterator[int]:
    for number in operations:
        yield from sorted(problem.needs[number])
        for operand in problem.writes[number]:
            yield from problem.values[operand].readers
