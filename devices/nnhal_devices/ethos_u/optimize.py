"""Operations of a subgraph that the NPU compiles together.

All of them, if the working memory has room. If it has not, parts that do not fit even alone fail, and the rest is
compiled in connected groups. If every part of a group fits alone, and the group does not, the largest part fails. If
the constants of a group do not fit where they lie at rest, the part that has most of them fails.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from nnhal.resolved import ResolvedModel, describe_operation
from nnhal.support.parts import groups_of
from nnhal_cascade.compiler import ConstantsDoNotFitError, DoesNotFitError
from nnhal_cascade.graph.cascader_graph import CascaderGraph, Part
from nnhal_cascade.graph.islands import float_islands
from nnhal_cascade.graph.paddings import fold_paddings
from nnhal_cascade.graph.subgraph import subgraph
from nnhal_cascade.performance.encoding import encoded_graph
from nnhal_cascade.schedule.schedule import Schedule
from nnhal_devices.backend import FailedSubgraph, OptimizationViews, Substitution

CompileGraph = Callable[[CascaderGraph], Schedule]
"""Raises DoesNotFitError and ConstantsDoNotFitError."""
_MEGA = 1_000_000


def optimize(model: ResolvedModel, compile_graph: CompileGraph) -> OptimizationViews:
    """Compile a model whose operations are all supported."""
    graph = encoded_graph(fold_paddings(model))
    islands = [island.operations for island in float_islands(model).values()]
    failures: dict[int, str] = {}
    """Parts, and why they fail."""
    while True:
        groups = groups_of(model, _failed_operations(model, graph, failures), islands)
        schedules: list[Schedule] = []
        for group in groups:
            parts = {part.index for part in graph.parts if part.operations[0] in group}
            try:
                schedules.append(compile_graph(_restricted(graph, parts)))
            except DoesNotFitError as error:
                failures.update(_failures(graph, parts, error, compile_graph))
            except ConstantsDoNotFitError as error:
                failures[max(parts, key=lambda part: graph.constants_bytes[part])] = str(error)
        if len(schedules) == len(groups):
            break
    return OptimizationViews(
        tuple(
            Substitution(tuple(group), _description(group, schedule), working_bytes=schedule.peak)
            for group, schedule in zip(groups, schedules, strict=True)
        ),
        tuple(
            FailedSubgraph(graph.parts[part].operations, _place(model, graph.parts[part]) + reason)
            for part, reason in sorted(failures.items())
        ),
    )


def _failed_operations(model: ResolvedModel, graph: CascaderGraph, failed: Collection[int]) -> list[bool]:
    lost = {operation for part in failed for operation in graph.parts[part].operations}
    return [number in lost for number in range(len(model.model.main.operations))]


def _restricted(graph: CascaderGraph, parts: Collection[int]) -> CascaderGraph:
    return graph if len(parts) == len(graph.parts) else subgraph(graph, parts)


def _failures(
    graph: CascaderGraph, parts: Collection[int], together: DoesNotFitError, compile_graph: CompileGraph
) -> dict[int, str]:
    """The parts of a group that do not fit alone, or its largest part if all of them do."""
    failures = {}
    for part in parts:
        try:
            compile_graph(_restricted(graph, {part}))
        except DoesNotFitError as error:
            failures[part] = _shortage(error)
    if failures:
        return failures
    largest = max(parts, key=lambda part: _bytes_around(graph, graph.parts[part]))
    return {largest: f"with what it is connected to, {_shortage(together)}"}


def _bytes_around(graph: CascaderGraph, part: Part) -> int:
    return sum(graph.tensors[tensor].bytes for tensor in {part.output, *(each.tensor for each in part.inputs)})


def _description(group: Sequence[int], schedule: Schedule) -> str:
    cascades = [len(plan.parts) for plan in schedule.proposal.plans if len(plan.parts) > 1]
    drawn = f"cascades of {'+'.join(map(str, cascades))}" if cascades else "no cascades"
    cycles = f"{schedule.cycles / _MEGA:.3g} Mcycles"
    return f"compiled: {len(group)} operations, {schedule.peak} bytes of SRAM, {cycles}, {drawn}"


def _shortage(error: DoesNotFitError) -> str:
    return f"{error.found}, there are {error.budget:,} of SRAM"


def _place(model: ResolvedModel, part: Part) -> str:
    number = part.operations[0]
    return f"{describe_operation(model.model, number)}: "
