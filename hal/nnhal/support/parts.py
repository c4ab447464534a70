"""Parts of a model whose other operations cannot be compiled: which operations go together, and each as a model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain

from nnhal.resolved import ResolvedModel, propagate_dimensions
from nnhal.types import Subgraph


def groups_of(model: ResolvedModel, failed: Sequence[bool], together: Iterable[Sequence[int]] = ()) -> list[list[int]]:
    """Return the connected groups of operations that have not failed, each in ascending order.

    Operations are in one group only if the longest paths to them have equally many failed operations: so no group
    waits for a failed operation that waits for the group. Operations that run ``together`` are connected, and wait for
    what one of them waits for.
    """
    together = tuple(together)
    barriers = _barriers(model, failed, together)
    roots = list(range(len(failed)))

    def root(number: int) -> int:
        while roots[number] != number:
            roots[number] = roots[roots[number]]
            number = roots[number]
        return number

    pairs = ((unit[0], number) for unit in together for number in unit[1:])
    for earlier, later in chain(_edges(model), pairs):
        if not failed[earlier] and not failed[later] and barriers[earlier] == barriers[later]:
            first, second = sorted((root(earlier), root(later)))
            roots[second] = first
    groups: dict[int, list[int]] = {}
    for number, lost in enumerate(failed):
        if not lost:
            groups.setdefault(root(number), []).append(number)
    return list(groups.values())


def _barriers(model: ResolvedModel, failed: Sequence[bool], together: Sequence[Sequence[int]]) -> list[int]:
    """The number of failed operations on the longest path to each operation."""
    barriers, before = [0] * len(failed), [-1]
    while barriers != before:
        before = list(barriers)
        for earlier, later in _edges(model):
            barriers[later] = max(barriers[later], barriers[earlier] + failed[earlier])
        for unit in together:
            most = max(barriers[number] for number in unit)
            for number in unit:
                barriers[number] = most
    return barriers


def _edges(model: ResolvedModel) -> Iterator[tuple[int, int]]:
    """Pairs of an operation and a later one that reads its output, in the order of the reader."""
    makers: dict[int, int] = {}
    for number, operation in enumerate(model.model.main.operations):
        for index in operation.inputs:
            if index in makers:
                yield makers[index], number
        makers.update(dict.fromkeys(operation.outputs, number))


def part_of(model: ResolvedModel, numbers: Sequence[int]) -> ResolvedModel:
    """Return some operations of main as a model. What other operations compute is an input, what they read an output.

    ``numbers`` are ascending. Operands keep their indexes.
    """
    main = model.model.main
    operands = tuple(
        replace(operand, dimensions=dimensions)
        for operand, dimensions in zip(main.operands, propagate_dimensions(model), strict=True)
    )
    operations = tuple(main.operations[number] for number in numbers)
    made = dict.fromkeys(index for operation in operations for index in operation.outputs)
    read = dict.fromkeys(index for operation in operations for index in operation.inputs)
    fed = tuple(index for index in read if index not in made and index not in model.constants[0])
    taken = set(numbers)
    others = (operation for number, operation in enumerate(main.operations) if number not in taken)
    wanted = {*main.output_indexes, *(index for operation in others for index in operation.inputs)}
    results = tuple(index for index in made if index in wanted)
    part = Subgraph(operands, operations, fed, results)
    return ResolvedModel(replace(model.model, main=part), model.constants, model.names)
