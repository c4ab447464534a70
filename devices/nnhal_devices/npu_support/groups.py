"""Which operations of a model are compiled together if some of them cannot be compiled.

Operations are in one group only if the longest paths to them have equally many failed operations: so no group waits for
a failed operation that waits for the group.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nnhal.resolved import ResolvedModel


def groups_of(model: ResolvedModel, failed: Sequence[bool]) -> list[list[int]]:
    """Return the connected groups of operations that have not failed, each in ascending order."""
    barriers = _barriers(model, failed)
    roots = list(range(len(failed)))

    def root(number: int) -> int:
        while roots[number] != number:
            roots[number] = roots[roots[number]]
            number = roots[number]
        return number

    for earlier, later in _edges(model):
        if not failed[earlier] and not failed[later] and barriers[earlier] == barriers[later]:
            first, second = sorted((root(earlier), root(later)))
            roots[second] = first
    groups: dict[int, list[int]] = {}
    for number, lost in enumerate(failed):
        if not lost:
            groups.setdefault(root(number), []).append(number)
    return list(groups.values())


def _barriers(model: ResolvedModel, failed: Sequence[bool]) -> list[int]:
    """The number of failed operations on the longest path to each operation."""
    barriers = [0] * len(failed)
    for earlier, later in _edges(model):
        barriers[later] = max(barriers[later], barriers[earlier] + failed[earlier])
    return barriers


def _edges(model: ResolvedModel) -> Iterator[tuple[int, int]]:
    """Pairs of an operation and a later one that reads its output, in the order of the reader."""
    makers: dict[int, int] = {}
    for number, operation in enumerate(model.model.main.operations):
        for index in operation.inputs:
            if index in makers:
                yield makers[index], number
        makers.update(dict.fromkeys(operation.outputs, number))
