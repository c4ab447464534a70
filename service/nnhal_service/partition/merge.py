"""Move steps that are too small to the device of a neighbouring step, or to the CPU."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nnhal_service.partition.grow import Group, grow
from nnhal_service.partition.problem import Problem


def merge_small(problem: Problem, groups: Sequence[Group], minimum: int, cpu: str) -> tuple[Group, ...]:
    """Return the groups, with those of fewer than ``minimum`` operations moved to the device of a neighbouring group.

    Of several such devices the fastest for the operations is chosen; if there is none, the CPU. Groups on the CPU may
    be of any size, and so may groups that no other device may take. No operation returns to a device that it left, so
    the loop ends.
    """
    if minimum <= 1:
        return tuple(groups)
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
    """Return the moves of one round: no group moves to one that moves itself, or moves after another has joined it."""
    place = {number: step for step, (_, operations) in enumerate(groups) for number in operations}
    home = problem.devices.index(cpu) if cpu in problem.devices else -1
    moves = []
    settled: set[int] = set()
    for step, (device, operations) in enumerate(groups):
        if len(problem.members_of(operations)) >= minimum or device == home or step in settled:
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
