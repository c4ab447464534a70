"""From the files of a subgraph to a binary, and what comes of that."""

from __future__ import annotations

from dataclasses import dataclass

from nnhal_mlip.compiler.compiler_options import MlipCompilerOptions
from nnhal_mlip.compiler.layers.aliasing import alias_values
from nnhal_mlip.compiler.layers.reading import read_layers
from nnhal_mlip.compiler.memory_map import TileMemoryRange, memory_map
from nnhal_mlip.compiler.numbers.scales import int8_scales, unit_scales
from nnhal_mlip.compiler.numbers.weights import weights_bytes
from nnhal_mlip.compiler.search import best_program
from nnhal_mlip.flow.files.subgraph_files import SubgraphFiles
from nnhal_mlip.program.binary import write_binary
from nnhal_mlip.program.program import MlipProgram, TensorType


@dataclass(frozen=True, slots=True)
class CompiledSubgraph:
    """A subgraph that can run."""

    binary: bytes
    program: MlipProgram
    cycles: int
    """Modelled, of a run."""
    memory: tuple[TileMemoryRange, ...]
    """What lies where in the tiles' memory, and how long."""


def compile_files(files: SubgraphFiles, options: MlipCompilerOptions | None = None) -> CompiledSubgraph:
    """Compile a subgraph. The same files and options give the same bytes.

    Raises:
        MlipCompileError: a layer is not one that tiles can compute, or int8 lacks a range.
        MisfitOfTilesError: it does not fit into the tiles' memory. The error says what would do.
    """
    options = options or MlipCompilerOptions()
    network = read_layers(files)
    if options.quantize == "fp16":
        aliased, element_type = alias_values(network, unit_scales(network)), TensorType.FP16
    else:
        aliased, element_type = alias_values(network, int8_scales(network, options.ranges)), TensorType.INT8
    found = best_program(aliased, element_type, options)
    binary = write_binary(found.program, weights_bytes(aliased, element_type, found.ddr))
    return CompiledSubgraph(binary, found.program, found.cycles, memory_map(found.plan))
