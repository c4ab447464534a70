"""Which operations of a subgraph the accelerator compiles together.

All of them, if they fit its tiles. The layer that takes most of what does not fit fails, and the rest is compiled in
connected groups.
"""

from __future__ import annotations

from collections.abc import Sequence

from nnhal.resolved import ResolvedModel, describe_operation
from nnhal_devices.backend import FailedSubgraph, OptimizationViews, Substitution
from nnhal_devices.mlip.compilation import CompilationChoices, CompiledModel, compile_model
from nnhal_devices.mlip.compiler.errors import MisfitOfTilesError
from nnhal_devices.mlip.model_partition import PartitionedHalModel, partition_model
from nnhal_devices.mlip.program.binary import read_binary
from nnhal_devices.mlip.timing.queues import timeline
from nnhal_devices.npu_support.groups import groups_of
from nnhal_devices.npu_support.parts import part_of

_MEGA = 1_000_000


def optimize(model: ResolvedModel, choices: CompilationChoices, public: bool) -> OptimizationViews:
    """Compile a model of which every operation is supported."""
    main = model.model.main
    failures: dict[tuple[int, ...], str] = {}
    """Operations of layers that do not fit, and why."""
    while True:
        lost = {number for operations in failures for number in operations}
        groups = groups_of(model, [number in lost for number in range(len(main.operations))])
        substitutions = []
        for group in groups:
            parts = partition_model(part_of(model, group), public)
            try:
                compiled = compile_model(parts, choices)
            except MisfitOfTilesError as error:
                operations = tuple(group[number] for number in _operations_at(parts, error))
                place = describe_operation(main.operations[operations[0]], operations[0])
                failures[operations] = f"{place}: {error}"
            else:
                substitutions.append(Substitution(tuple(group), _description(group, compiled, choices)))
        if len(substitutions) == len(groups):
            failed = tuple(FailedSubgraph(*each) for each in sorted(failures.items()))
            return OptimizationViews(tuple(substitutions), failed)


def _operations_at(parts: PartitionedHalModel, error: MisfitOfTilesError) -> list[int]:
    """The operations of the layer that takes most, in ascending order."""
    kernels = [kernel for subgraph in parts.partition.subgraphs for kernel in subgraph.kernels]
    kernel = next((each for each in kernels if ", ".join(each.user_names) == error.place), kernels[0])
    return sorted({source.number for node in kernel.nodes for source in node.sources})


def _description(group: Sequence[int], compiled: CompiledModel, choices: CompilationChoices) -> str:
    programs = [read_binary(step.binary).program for step in compiled.steps]
    layers = sum(len(program.layers) for program in programs)
    tiles = max((program.tiles for program in programs), default=0)
    cycles = sum(timeline(program, choices.profile).total for program in programs)
    return (
        f"compiled: {len(group)} operations, {layers} kernels on {tiles} tiles, {cycles / _MEGA:.3g} Mcycles (modelled)"
    )
