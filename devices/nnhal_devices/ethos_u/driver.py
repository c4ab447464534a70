"""The driver of ethos_u."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import lru_cache, partial
from typing import final

from nnhal.arrays import Array
from nnhal.errors import HalError, invalid_argument
from nnhal.resolved import ResolvedModel
from nnhal.support import Support
from nnhal.types import DeviceType, ErrorStatus, Extension, NumberOfCacheFiles
from nnhal.types.layout import ELEMENT_TYPES
from nnhal_cascade.compiler import (
    CompilerOptions,
    ConstantsDoNotFitError,
    DoesNotFitError,
    compile_graph,
    planned_graphs,
)
from nnhal_cascade.graph.cascader_graph import CascaderGraph
from nnhal_cascade.graph.feeds import with_inputs
from nnhal_cascade.graph.paddings import fold_paddings
from nnhal_cascade.machine.errors import MachineError, StreamError
from nnhal_cascade.machine.machine import Machine
from nnhal_cascade.performance.encoding import encoded_graph
from nnhal_cascade.schedule.schedule import Schedule
from nnhal_cascade.stream.commands import graph_digest
from nnhal_cascade.stream.emit import emit
from nnhal_cascade.support import operation_limits, supported_operations
from nnhal_devices.arguments import BoundArrayWorkload, read_argument
from nnhal_devices.backend import Backend, MemoryKind, MemoryRules, OptimizationViews
from nnhal_devices.driver import Argument, Control, DriverOptions, PrepareOptions
from nnhal_devices.ethos_u.artifact import read_artifact, write_artifact
from nnhal_devices.ethos_u.figures import schedule_figures, schedule_times
from nnhal_devices.ethos_u.optimize import optimize
from nnhal_devices.ethos_u.options import OPTIONS, read_options
from nnhal_devices.ethos_u.performance import (
    TRANSFER_COSTS,
    capabilities_of,
    nanoseconds,
    operation_ns,
    whole_islands,
)
from nnhal_devices.figures import DeviceFigure, OperationTimes, WorkloadFigures

_SCHEDULES = 8
"""Schedules that are kept: a network is optimised, and then prepared."""


@final
class EthosU:
    """An NPU with kilobytes of working memory, whose compiler cascades: synchronous, for 8-bit networks."""

    name = "ethos_u"
    version = "nnhal-ethos_u-0.1.0"
    type = DeviceType.ACCELERATOR
    memory = MemoryRules(frozenset({MemoryKind.ASHMEM, MemoryKind.HARDWARE_BUFFER_BLOB}), alignment=16)
    modelled_timing = True
    extensions: tuple[Extension, ...] = ()
    number_of_cache_files = NumberOfCacheFiles(1, 1)

    def __init__(self, options: DriverOptions) -> None:
        """Raises ValueError and OSError if an option is wrong."""
        options.require_known(self.name, *OPTIONS)
        self._options = read_options(options.extra)
        self.working_bytes = self._options.sram
        self.capabilities = capabilities_of(self._options.system)
        self.backend = Backend(
            self._operation_ns,
            TRANSFER_COSTS,
            self._optimize,
            realisation="emulated: command streams, interpreted with cpu_ref's arithmetic on this machine's CPU",
            operation_limits=operation_limits,
            figures=self._figures,
            together=self._islands,
        )
        self._scheduled = lru_cache(_SCHEDULES)(self._compile)

    def _figures(self) -> tuple[DeviceFigure, ...]:
        working = self._options.system.working
        return (
            DeviceFigure(working.name.upper(), working.size, "bytes"),
            DeviceFigure(f"{working.name.upper()} that a network may take", self.working_bytes, "bytes"),
        )

    def supported_operations(self, model: ResolvedModel) -> Sequence[Support]:
        return supported_operations(model, self._options.like_vela)

    def prepare(self, model: ResolvedModel, options: PrepareOptions) -> CascadedWorkload:
        """Compile a model for the working memory, or take the commands that a cache has kept of that.

        The preference changes nothing: the fastest schedule is taken.

        A deadline that passes meanwhile ends the preparation after compiling; the schedule is kept for the next one.
        """
        return self.prepare_within(model, options, self.working_bytes)

    def prepare_within(self, model: ResolvedModel, options: PrepareOptions, working_bytes: int) -> CascadedWorkload:
        model = fold_paddings(model)
        graph, system = with_inputs(encoded_graph(model), self._options.input), self._options.system
        scheduled = partial(self._scheduled, graph, working_bytes)
        kept = read_artifact(options.artifact, system, working_bytes)
        if kept is not None:
            # Commands for another graph, or constants that do not fit, are those of a forged entry.
            with suppress(StreamError, ConstantsDoNotFitError):
                graphs = planned_graphs(graph, system)
                planned = next((each for each in graphs if graph_digest(each) == kept[0].digest), graph)
                machine = Machine(kept[0], planned, model, system, self._options.checked)
                return CascadedWorkload(machine, scheduled, working_bytes, kept[1])
        try:
            schedule = scheduled()
        except (ConstantsDoNotFitError, DoesNotFitError) as error:
            raise HalError(ErrorStatus.RESOURCE_EXHAUSTED_PERSISTENT, f"{error} of {system.name}") from error
        options.check()
        machine = Machine(emit(schedule), schedule.graph, model, system, self._options.checked)
        return CascadedWorkload(machine, scheduled, working_bytes, schedule.peak)

    def optimize_within(self, model: ResolvedModel, working_bytes: int) -> OptimizationViews:
        place = self._options.input
        return optimize(model, lambda graph: self._scheduled(with_inputs(graph, place), working_bytes))

    def _compile(self, graph: CascaderGraph, working_bytes: int) -> Schedule:
        return compile_graph(graph, self._options.system, CompilerOptions(budget=working_bytes))

    def _operation_ns(self, model: ResolvedModel) -> Sequence[float]:
        return operation_ns(model, self._options.system, self._options.like_vela)

    def _islands(self, model: ResolvedModel) -> Sequence[tuple[int, ...]]:
        return whole_islands(model, self._options.like_vela)

    def _optimize(self, model: ResolvedModel) -> OptimizationViews:
        return self.optimize_within(model, self.working_bytes)


class CascadedWorkload:
    """A machine that is loaded with the commands of a network."""

    def __init__(self, machine: Machine, schedule: Callable[[], Schedule], budget: int, working_bytes: int) -> None:
        """``budget`` is the bytes of the working memory that the schedule was made for, of which it takes
        ``working_bytes``. The schedule is asked for when it is shown: what a cache has kept lacks it.
        """
        self.working_bytes = working_bytes
        self._machine = machine
        self._schedule = schedule
        self._budget = budget

    def artifact(self) -> bytes:
        return write_artifact(self._machine.stream, self._machine.system, self._budget, self.working_bytes)

    def figures(self) -> WorkloadFigures:
        return schedule_figures(self._schedule(), self._budget)

    def operation_times(self, control: Control) -> OperationTimes:
        return schedule_times(self._schedule())

    def bind(self, inputs: Sequence[Argument], outputs: Sequence[Argument]) -> BoundArrayWorkload:
        main = self._machine.model.model.main
        elements = [ELEMENT_TYPES[main.operands[index].type] for index in main.input_indexes]
        given = [read_argument(*each) for each in zip(inputs, elements, strict=True)]
        for position, (operand, values) in enumerate(zip(main.input_indexes, given, strict=True)):
            if values is None and operand in self._machine.graph.tensor_of:
                invalid_argument(f"input {position} is omitted, but an operation reads it")
        return BoundArrayWorkload(lambda control: self._run(given, control), outputs)

    def _run(self, inputs: Sequence[Array | None], control: Control) -> tuple[Sequence[Array], int]:
        """Run the commands. The time is that of the cycles that the machine has counted."""
        try:
            results, measured = self._machine.run(inputs, control.check)
        except MachineError as error:
            message = f"the compiled network cannot be run: {error}"
            raise HalError(ErrorStatus.GENERAL_FAILURE, message) from error
        return results, nanoseconds(measured.cycles, self._machine.system)
