"""A model as binaries, and what is passed between them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from nnhal.errors import general_failure
from nnhal_mlip.compiler.compiler import CompiledSubgraph, compile_files
from nnhal_mlip.compiler.compiler_options import MlipCompilerOptions
from nnhal_mlip.compiler.memory_map import TileMemoryRange
from nnhal_mlip.flow.files.describing import describe
from nnhal_mlip.flow.flow_partition import FlowPartition, FlowSubgraph
from nnhal_mlip.options import MlipOptions
from nnhal_mlip.support import PartitionedHalModel

FED = -1
"""In place of a step: the inputs of the model."""


class ValuePlace(NamedTuple):
    """Source of a value."""

    step: int
    """The binary that computes it, or FED."""
    port: int
    """Which of its outputs, or of the model's inputs."""


@dataclass(frozen=True, slots=True)
class CompiledStep:
    """A subgraph of the flow."""

    binary: bytes
    inputs: tuple[ValuePlace, ...]
    memory: tuple[TileMemoryRange, ...] = ()
    """What lies where in the tiles' memory, and how long."""


@dataclass(frozen=True, slots=True)
class CompiledModel:
    """Binaries in the order in which they run, and what the model returns."""

    steps: tuple[CompiledStep, ...]
    outputs: tuple[ValuePlace, ...]
    origin: bytes
    """The fingerprint of what it was made of."""


def compile_model(
    parts: PartitionedHalModel, options: MlipOptions, origin: bytes, check: Callable[[], None] = lambda: None
) -> CompiledModel:
    """Compile a model whose operations are all taken. ``check`` is called after each subgraph, and may raise.

    Raises MisfitOfTilesError if a subgraph does not fit, GENERAL_FAILURE if the partition leaves something to the host.
    """
    found = parts.partition
    if found.host:
        node = found.host[0]
        general_failure(f"{node.name} is supported, but not in this context: {found.objections[node.output].got}")
    places = {name: ValuePlace(FED, port) for port, name in enumerate(parts.imported.inputs)}
    steps: list[CompiledStep] = []
    for subgraph in found.subgraphs:
        inputs = tuple(places[name] for name in subgraph.inputs)
        compiled = _compiled(found, subgraph, options)
        steps.append(CompiledStep(compiled.binary, inputs, compiled.memory))
        places |= {name: ValuePlace(len(steps) - 1, port) for port, name in enumerate(subgraph.outputs)}
        check()
    outputs = tuple(places[found.graph.outputs[name]] for name in parts.imported.outputs)
    return CompiledModel(tuple(steps), outputs, origin)


def _compiled(found: FlowPartition, subgraph: FlowSubgraph, options: MlipOptions) -> CompiledSubgraph:
    made = found.graph.values[subgraph.kernels[0].output]
    own = MlipCompilerOptions(
        quantize="int8" if made.scales else "fp16",
        num_tiles=options.tiles,
        wb_pin_ocm=options.pinned,
        profile=options.profile,
    )
    return compile_files(describe(found, subgraph), own)
