"""Which operations of a subgraph the NPU compiles together.

Each operation is cut into stripes on its own. An operation that does not fit the SRAM fails, and the rest is compiled
in connected groups. Operations are in one group only if the longest paths to them have equally many failed operations:
so no group waits for a failed operation that waits for the group.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nnhal.resolved import ResolvedModel, describe_operation, propagate_dimensions
from nnhal_devices.backend import FailedSubgraph, OptimizationViews, Substitution
from nnhal_devices.ethos_n.geometry import Geometry, geometry_of
from nnhal_devices.ethos_n.limits import SRAM_BYTES
from nnhal_devices.ethos_n.stripes import Stripes, cut, smallest


def optimize(model: ResolvedModel) -> OptimizationViews:
    """Compile a model of which every operation is supported."""
    geometries = _geometries(model)
    stripes = [cut(geometry) for geometry in geometries]
    groups = _groups(model, [each is None for each in stripes])
    return OptimizationViews(
        tuple(Substitution(tuple(group), _compiled([s for n in group if (s := stripes[n])])) for group in groups),
        tuple(
            FailedSubgraph((number,), _reason(model, number, geometries[number]))
            for number, each in enumerate(stripes)
            if each is None
        ),
    )


def _geometries(model: ResolvedModel) -> list[Geometry]:
    known = propagate_dimensions(model)
    return [
        geometry_of(model.context(0, number, known), [known[index] for index in operation.outputs])
        for number, operation in enumerate(model.model.main.operations)
    ]


def _groups(model: ResolvedModel, failed: Sequence[bool]) -> list[list[int]]:
    """The groups of operations that have not failed, each in ascending order."""
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


def _compiled(stripes: Sequence[Stripes]) -> str:
    most, count = max(each.bytes for each in stripes), sum(each.count for each in stripes)
    return f"compiled: {len(stripes)} operations, {most} bytes of SRAM, {count} stripes"


def _reason(model: ResolvedModel, number: int, geometry: Geometry) -> str:
    least, place = smallest(geometry), describe_operation(model.model.main.operations[number], number)
    return (
        f"{place}: a row of {least.channels} channels with its input and weights takes {least.bytes} bytes of SRAM, "
        f"there are {SRAM_BYTES}"
    )
