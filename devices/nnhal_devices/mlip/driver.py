"""The driver of mlip."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import final

from nnhal.errors import HalError, general_failure
from nnhal.resolved import ResolvedModel
from nnhal.support import Support
from nnhal.types import DeviceType, ErrorStatus, ExecutionPreference, Extension, NumberOfCacheFiles
from nnhal_devices.backend import (
    Backend,
    DeviceFigure,
    FailedSubgraph,
    MemoryKind,
    MemoryRules,
    OptimizationViews,
    TensorHandleFactory,
    TransferCosts,
)
from nnhal_devices.driver import DriverOptions, PrepareOptions
from nnhal_devices.mlip.optimize import optimize
from nnhal_devices.mlip.performance import capabilities_of
from nnhal_devices.mlip.residence import OcmResidence
from nnhal_devices.mlip.workload import LoadedBinaries, SimulatedWorkload, numbers_of
from nnhal_mlip.artifact import read_artifact
from nnhal_mlip.compilation import CompiledModel
from nnhal_mlip.compiler.errors import MisfitOfTilesError, MlipCompileError
from nnhal_mlip.costs import operation_ns
from nnhal_mlip.model_compiler import ModelCompiler
from nnhal_mlip.options import OPTIONS, read_options
from nnhal_mlip.program.errors import BinaryError, ProgramError
from nnhal_mlip.program.program import MAX_TILES, OCM_BYTES
from nnhal_mlip.simulator.simulator import Simulator
from nnhal_mlip.support import operation_limits, supported_operations

_IMPORTS = frozenset({MemoryKind.ASHMEM, MemoryKind.HARDWARE_BUFFER_BLOB})
_ALIGNMENT = 128
"""Bytes, of the buffers of the part (DPDK, drivers/ml/cnxk)."""
_HANDLES = TensorHandleFactory("mlip/import", _IMPORTS, _IMPORTS, alignment=_ALIGNMENT, relaxed_as_float16=True)
_FRUGAL_TILES = 2
"""Tiles that a network may take if it is to save energy."""


@final
class Mlip:
    """An accelerator of up to eight tiles in float16 or symmetric 8-bit numbers: synchronous."""

    name = "mlip"
    version = "nnhal-mlip-0.1.0"
    type = DeviceType.ACCELERATOR
    memory = MemoryRules(_IMPORTS, _ALIGNMENT)
    modelled_timing = True
    extensions: tuple[Extension, ...] = ()
    number_of_cache_files = NumberOfCacheFiles(1, 1)

    def __init__(self, options: DriverOptions) -> None:
        """Raises ValueError if an option is wrong."""
        options.require_known(self.name, *OPTIONS)
        read = read_options(options.extra)
        self._compiler = ModelCompiler(read)
        self.working_bytes = read.tiles * OCM_BYTES
        self._residence = OcmResidence()
        self.capabilities = capabilities_of(read.profile, read.tiles)
        self.backend = Backend(
            self._operation_ns,
            TransferCosts(),  # the DMA engine reads the host's DDR: importing costs what it does on any device
            self._optimize,
            (_HANDLES,),
            realisation="emulated: binaries, run in real float16 or 8-bit arithmetic on this machine's CPU",
            operation_limits=operation_limits,
            figures=self._figures,
        )

    def _figures(self) -> tuple[DeviceFigure, ...]:
        tiles = self._compiler.options.tiles
        return (
            DeviceFigure("tiles", tiles),
            DeviceFigure("OCM of all tiles", self.working_bytes, "bytes"),
            DeviceFigure("OCM that pinned weights take", self._residence.pinned_bytes, "bytes"),
            DeviceFigure("models with pinned weights", self._residence.placed),
        )

    def supported_operations(self, model: ResolvedModel) -> Sequence[Support]:
        return supported_operations(model, self._compiler.options.public)

    def prepare(self, model: ResolvedModel, options: PrepareOptions) -> SimulatedWorkload:
        """Compile a model, or load what a cache has kept of compiling it, and load the binaries.

        LOW_POWER lets a network take two tiles if it fits. A deadline ends the preparation after a binary.
        """
        return self.prepare_within(model, options, self.working_bytes)

    def prepare_within(self, model: ResolvedModel, options: PrepareOptions, working_bytes: int) -> SimulatedWorkload:
        """Do the same on the tiles whose memory is within ``working_bytes``, whole ones only."""
        most = working_bytes // OCM_BYTES
        if not most:
            raise HalError(ErrorStatus.RESOURCE_EXHAUSTED_PERSISTENT, _less_than_a_tile(working_bytes))
        tiles = min(most, _FRUGAL_TILES if options.preference == ExecutionPreference.LOW_POWER else MAX_TILES)
        cached = read_artifact(options.artifact, self._compiler.origin(model, tiles))
        if cached is not None:
            try:
                return self._loaded(model, cached)
            except (BinaryError, ProgramError):  # only a forged entry gets here: the model is compiled again
                pass
        return self._loaded(model, self._compiled(model, tiles, most, options.check))

    def _compiled(self, model: ResolvedModel, tiles: int, most: int, check: Callable[[], None]) -> CompiledModel:
        """Compile a model for ``tiles``, or for ``most`` if it does not fit those."""
        try:
            if tiles < most:
                with suppress(MisfitOfTilesError):
                    return self._compiler.compile(model, tiles, check)
            return self._compiler.compile(model, most, check)
        except MisfitOfTilesError as error:
            raise HalError(ErrorStatus.RESOURCE_EXHAUSTED_PERSISTENT, str(error)) from error
        except MlipCompileError as error:
            general_failure(f"the network cannot be compiled: {error}")

    def _loaded(self, model: ResolvedModel, compiled: CompiledModel) -> SimulatedWorkload:
        """Raises BinaryError and ProgramError if a binary is damaged."""
        options = self._compiler.options
        simulators = tuple(Simulator(step.binary, options.profile, options.checked) for step in compiled.steps)
        loaded = LoadedBinaries(compiled, simulators, model.model.main, numbers_of(model))
        self._residence.load([simulator.binary for simulator in simulators], loaded)
        return SimulatedWorkload(loaded)

    def _operation_ns(self, model: ResolvedModel) -> Sequence[float]:
        return operation_ns(model, self._compiler.options)

    def _optimize(self, model: ResolvedModel) -> OptimizationViews:
        return self.optimize_within(model, self.working_bytes)

    def optimize_within(self, model: ResolvedModel, working_bytes: int) -> OptimizationViews:
        tiles = working_bytes // OCM_BYTES
        if not tiles:
            every = tuple(range(len(model.model.main.operations)))
            return OptimizationViews(failed=(FailedSubgraph(every, _less_than_a_tile(working_bytes)),))
        return optimize(model, self._compiler, tiles)


def _less_than_a_tile(working_bytes: int) -> str:
    return f"a tile takes {OCM_BYTES} bytes of OCM, there are {working_bytes}"
