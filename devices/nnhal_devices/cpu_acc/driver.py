"""The driver of cpu_acc."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import partial
from typing import final

import onnxruntime

from nnhal.arrays import Array
from nnhal.errors import HalError
from nnhal.extensions.onnx import ELEMENT_TYPES, EXTENSION, NAME
from nnhal.resolved import ResolvedModel, propagate_dimensions
from nnhal.support import Support
from nnhal.types import DeviceType, ErrorStatus, Extension, NumberOfCacheFiles
from nnhal.types.layout import Dimensions
from nnhal_devices.backend import Backend, MemoryRules
from nnhal_devices.cpu_acc.artifact import OptimisedGraph, gains_by_restoring, read_artifact, weights_of
from nnhal_devices.cpu_acc.blocked import keep_blocked
from nnhal_devices.cpu_acc.blocked.block_size import block_channels
from nnhal_devices.cpu_acc.byte_sums import sums_saturate
from nnhal_devices.cpu_acc.folding import folds
from nnhal_devices.cpu_acc.fused import fuse_neighbours
from nnhal_devices.cpu_acc.graph import LoweredGraph
from nnhal_devices.cpu_acc.lowered import lower
from nnhal_devices.cpu_acc.messages import has_branches, is_one_run
from nnhal_devices.cpu_acc.optimised import NO_GRAPH
from nnhal_devices.cpu_acc.performance import CAPABILITIES, ROOFLINE
from nnhal_devices.cpu_acc.profile import profiled_times
from nnhal_devices.cpu_acc.runs import declared, require_outputs
from nnhal_devices.cpu_acc.session import (
    CPU,
    OnnxSession,
    Providers,
    StoppableRuns,
    create_session,
    restore_session,
)
from nnhal_devices.cpu_acc.support import operation_limits, supported_operations
from nnhal_devices.cpu_acc.workload import OnnxWorkload
from nnhal_devices.driver import Control, DriverOptions, PrepareOptions
from nnhal_devices.figures import OperationTimes
from nnhal_devices.measured import NO_ZEROS, zeros_for


@final
class CpuAcc:
    """An optimised CPU: ONNX Runtime, synchronous, in the caller's memory."""

    name = "cpu_acc"
    version = f"nnhal-cpu_acc-0.1.0+onnxruntime-{onnxruntime.__version__}"
    type = DeviceType.CPU
    capabilities = CAPABILITIES
    memory = MemoryRules(alignment=64, unlocked=True)
    modelled_timing = False
    extensions: tuple[Extension, ...] = (EXTENSION,)
    number_of_cache_files = NumberOfCacheFiles(1, 1)
    backend = Backend(
        ROOFLINE.operation_ns,
        realisation="ONNX Runtime on this machine's CPU",
        operation_limits=operation_limits,
        source_extension=NAME,
        takes_files=True,
    )

    def __init__(self, options: DriverOptions, providers: Providers = CPU) -> None:
        """``providers`` are execution providers of ONNX Runtime, or add themselves to the options of sessions."""
        options.require_known(self.name)
        self._threads = options.threads
        self._providers = providers
        self._on_cpu = not callable(providers) and tuple(providers) == CPU
        if self._on_cpu:  # asked of ONNX Runtime once, by sessions of their own: the first model need not wait for it
            sums_saturate()
            block_channels()

    def supported_operations(self, model: ResolvedModel) -> Sequence[Support]:
        return supported_operations(model)

    def foreseen_support(self, model: ResolvedModel) -> Sequence[Support] | None:
        """Answer for a model that is one RUN: its operands are compared with the message. A session shows the rest."""
        return [*declared(model, infers=False).values()] if is_one_run(model.model) else None

    def prepare(self, model: ResolvedModel, options: PrepareOptions) -> OnnxWorkload:
        """Lower and compile a model. The preference changes nothing, since there is one way to run a model."""
        dimensions = propagate_dimensions(model)
        graph, on_cpu = self._lowered(model, dimensions), self._on_cpu
        gains = not on_cpu or gains_by_restoring(graph, model)
        session = self._session(graph, folds(model, dimensions), options.is_cached and on_cpu and gains)
        if graph.message is not None:
            require_outputs(model, graph, session.runtime)
        content, weights = session.optimised
        optimised = OptimisedGraph(content, graph.inputs, graph.outputs, graph.message is not None, weights)
        times = partial(self._operation_times, model, dimensions)
        return OnnxWorkload(model, dimensions, optimised, replace(session, optimised=NO_GRAPH), gains, times)

    def replaced_constants(self, model: ResolvedModel) -> Collection[int]:
        """The weights. Shapes and messages are read again, since the dimensions of values follow from them."""
        return weights_of(model)

    def restore(self, model: ResolvedModel, options: PrepareOptions) -> OnnxWorkload | None:
        """Make a session of a graph that ONNX Runtime has optimised before, which takes less time."""
        graph = read_artifact(options.artifact, model) if self._on_cpu else None
        session = restore_session(graph.content, graph.weights, self._threads) if graph is not None else None
        if graph is None or session is None:
            return None
        return OnnxWorkload(model, propagate_dimensions(model), replace(graph, content=b"", weights={}), session)

    def _lowered(self, model: ResolvedModel, dimensions: Sequence[Dimensions]) -> LoweredGraph:
        graph = lower(model, dimensions)
        if graph.message is None and self._on_cpu:
            keep_blocked(graph)
            fuse_neighbours(graph)
        return graph

    def _operation_times(
        self, model: ResolvedModel, dimensions: Sequence[Dimensions], control: Control
    ) -> OperationTimes:
        """Measure the nodes of a model, in a session of their own."""
        graph, may_fold = self._lowered(model, dimensions), folds(model, dimensions)
        inputs = _zeros(model, graph)
        if inputs is None:
            return NO_ZEROS
        return profiled_times(graph, inputs, lambda prefix: self._session(graph, may_fold, False, prefix), control)

    def try_out(self, model: ResolvedModel) -> None:
        """Compile a model, and run it on zeros if its inputs can be zeros. Raises HalError if either fails."""
        dimensions = propagate_dimensions(model)
        graph = self._lowered(model, dimensions)
        session = self._session(graph, folds(model, dimensions), False)
        inputs = _zeros(model, graph)
        if inputs is not None:
            StoppableRuns()(Control(), lambda options: session.runtime.run(None, inputs, options))

    def _session(self, graph: LoweredGraph, may_fold: bool, keeps: bool, profile: str = "") -> OnnxSession:
        """Compile a graph; with open axes if ONNX Runtime refuses the message for its dimensions, as branches may."""
        try:
            return create_session(graph, self._threads, self._providers, may_fold, keeps, profile)
        except HalError as error:
            branches = graph.message is not None and has_branches(graph.message)
            if not branches or error.status != ErrorStatus.GENERAL_FAILURE:
                raise
            graph.open_axes = True
            return create_session(graph, self._threads, self._providers, may_fold, keeps, profile)


def _zeros(model: ResolvedModel, graph: LoweredGraph) -> dict[str, Array] | None:
    """Zeros for the inputs of a lowered model; None if they cannot be zeros."""
    found = zeros_for(model, lambda index: ELEMENT_TYPES.get(graph.element_type(index)))
    return None if found is None else {name: found[operand] for name, operand in graph.inputs.items()}
