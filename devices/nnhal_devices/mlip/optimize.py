"""Operations of a subgraph that the accelerator compiles together.

All of them, if they fit its tiles. The layer that takes most of what does not fit fails, and the rest is compiled in
connected groups.
"""

from __future__ import annotations

from collections.abc import Sequence

from nnhal.resolved import ResolvedModel, describe_operation
from nnhal.support.parts import groups_of, part_of
from nnhal_devices.backend import FailedSubgraph, OptimizationViews, Substitution
from nnhal_mlip.compilation import CompiledModel
from nnhal_mlip.compiler.errors import MisfitOfTilesError
from nnhal_mlip.model_compiler import ModelCompiler
from nnhal_mlip.program.binary import read_binary
from nnhal_mlip.support import PartitionedHalModel
from nnhal_mlip.timing.profile import TimingProfile
from nnhal_mlip.timing.queues import timeline

_MEGA = 1_000_000


def optimize(model: ResolvedModel, compiler: ModelCompiler, tiles: int | None = None) -> OptimizationViews:
    """Compile a model whose operations are all supported, for so many tiles instead of the options'."""
    main = model.model.main
    failures: dict[tuple[int, ...], str] = {}
    """Operations of layers that do not fit, and why."""
    while True:
        lost = {number for operations in failures for number in operations}
        groups = groups_of(model, [number in lost for number in range(len(main.operations))])
        substitutions = []
        for group in groups:
            part = model if len(group) == len(main.operations) else part_of(model, group)
            try:
                compiled = compiler.compile(part, tiles)
            except MisfitOfTilesError as error:
                operations = tuple(group[number] for number in _operations_at(compiler.partition(part), error))
                place = describe_operation(model.model, operations[0])
                failures[operations] = f"{place}: {str(error).removeprefix(f'{error.place}: ')}"
            else:
                description = _description(group, compiled, compiler.options.profile)
                substitutions.append(Substitution(tuple(group), description))
        if len(substitutions) == len(groups):
            failed = tuple(FailedSubgraph(*each) for each in sorted(failures.items()))
            return OptimizationViews(tuple(substitutions), failed)


def _operations_at(parts: PartitionedHalModel, error: MisfitOfTilesError) -> list[int]:
    """The operations of the layer that takes most, in ascending order.

    A layer that stands for none is a transposition: then those of the first layer that stands for any.
    """
    kernels = [kernel for subgraph in parts.partition.subgraphs for kernel in subgraph.kernels]
    taking = [kernel for kernel in kernels if ", ".join(kernel.user_names) == error.place]
    numbers = (
        sorted({source.number for node in kernel.nodes for source in node.sources}) for kernel in (*taking, *kernels)
    )
    return next(found for found in numbers if found)


def _description(group: Sequence[int], compiled: CompiledModel, profile: TimingProfile) -> str:
    programs = [read_binary(step.binary).program for step in compiled.steps]
    layers = sum(len(program.layers) for program in programs)
    tiles = max((program.tiles for program in programs), default=0)
    cycles = sum(timeline(program, profile).total for program in programs)
    return (
        f"compiled: {len(group)} operations, {layers} kernels on {tiles} tiles, {cycles / _MEGA:.3g} Mcycles (modelled)"
    )
