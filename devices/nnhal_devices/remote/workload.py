"""Models that the device has prepared, and their runs."""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from collections.abc import Mapping, Sequence

from nnhal.resolved import ResolvedModel
from nnhal.types import Operand
from nnhal.types.layout import ELEMENT_TYPES
from nnhal.v1 import admin_pb2
from nnhal.v1 import wire_pb2 as wire
from nnhal_devices.driver import Argument, Control, Outcome
from nnhal_devices.figures import (
    MemoryFigure,
    MemorySpan,
    TimeFigure,
    TimeSpan,
    WorkloadFigures,
)
from nnhal_devices.remote.binding import BoundPlaces, RunLayout
from nnhal_devices.remote.run import RemoteRun, WireParts

_IDLE_EXECUTIONS = 8
"""How many executions of a model stay bound on the device though nothing uses them, for arguments like theirs."""


class _Executions:
    """The executions of a prepared model on the device that nothing uses at present. Safe to use from threads."""

    def __init__(self, prepared: int, parts: WireParts) -> None:
        self.prepared = prepared
        self._parts = parts
        self._lock = threading.Lock()
        self._idle: OrderedDict[int, RunLayout] = OrderedDict()
        self._is_closed = False

    def take(self, layout: RunLayout) -> int:
        """Return an execution for arguments of a layout. Raises HalError."""
        with self._lock:
            found = next((number for number, idle in self._idle.items() if idle == layout), 0)
            if found:
                del self._idle[found]
                return found
        request = wire.BindExecutionRequest(
            prepared_model=self.prepared,
            inputs=[argument.to_wire() for argument in layout.inputs],
            outputs=[argument.to_wire() for argument in layout.outputs],
            loop_timeout_ns=layout.loop_timeout_ns,
        )
        connection = self._parts.connection
        return connection.call(connection.stub.BindExecution, request).execution

    def give_back(self, number: int, layout: RunLayout) -> None:
        """Keep an execution for reuse, unless it is tied to buffers. May be called by finalisers."""
        if self._is_closed or layout.has_buffers or not self._lock.acquire(False):
            self._parts.releases.add(number)
            return
        try:
            self._idle[number] = layout
            dropped = self._idle.popitem(last=False)[0] if len(self._idle) > _IDLE_EXECUTIONS else 0
        finally:
            self._lock.release()
        if dropped:
            self._parts.releases.add(dropped)

    def close(self) -> None:
        """Release everything, the prepared model too."""
        self._is_closed = True
        for number in (*self._idle, self.prepared):
            self._parts.releases.add(number)


class RemoteWorkload:
    """A prepared model of the device."""

    def __init__(self, model: ResolvedModel, prepared: int, element_sizes: Mapping[int, int], parts: WireParts) -> None:
        """``element_sizes`` are those of the model's extension types, by operand code."""
        main = model.model.main
        self._input_sizes = [_element_bytes(main.operands[index], element_sizes) for index in main.input_indexes]
        self._output_sizes = [_element_bytes(main.operands[index], element_sizes) for index in main.output_indexes]
        self._parts = parts
        self._executions = _Executions(prepared, parts)
        weakref.finalize(self, self._executions.close).atexit = False

    def bind(self, inputs: Sequence[Argument], outputs: Sequence[Argument]) -> RemoteBoundWorkload:
        """Bind it to memory of this host and of the device. Raises HalError."""
        kept = self._parts.kept
        bound = (
            BoundPlaces(inputs, self._input_sizes, kept, "input"),
            BoundPlaces(outputs, self._output_sizes, kept, "output"),
        )
        return RemoteBoundWorkload(self, self._executions, *bound, self._parts)


class ShownRemoteWorkload(RemoteWorkload):
    """A prepared model whose figures the device shows."""

    def figures(self) -> WorkloadFigures:
        """Fetch them. Raises HalError."""
        connection = self._parts.connection
        request = wire.GetWorkloadFiguresRequest(prepared_model=self._executions.prepared)
        return figures_from_wire(connection.call(connection.stub.GetWorkloadFigures, request).figures)


class RemoteBoundWorkload:
    """A prepared model that is bound to memory. It has an execution on the device from its first run on."""

    def __init__(
        self,
        workload: RemoteWorkload,
        executions: _Executions,
        inputs: BoundPlaces,
        outputs: BoundPlaces,
        parts: WireParts,
    ) -> None:
        self._workload = workload  # which must not end before
        self._executions = executions
        self._inputs = inputs
        self._outputs = outputs
        self._parts = parts
        self._run: RemoteRun | None = None

    def run(self, control: Control) -> Outcome:
        """Send the inputs, have the device compute, and receive the outputs. Raises HalError."""
        control.check()
        run = self._run
        if run is None:
            run = self._run = self._begun(control.loop_timeout_ns)
        return run(control)

    def _begun(self, loop_timeout_ns: int) -> RemoteRun:
        layout = RunLayout(tuple(self._inputs.layouts), tuple(self._outputs.layouts), loop_timeout_ns)
        number = self._executions.take(layout)
        weakref.finalize(self, self._executions.give_back, number, layout).atexit = False
        return RemoteRun(number, self._inputs, self._outputs, self._parts)


def _element_bytes(operand: Operand, element_sizes: Mapping[int, int]) -> int:
    """The size of one element; 0 for an extension's type without a fixed one."""
    element = ELEMENT_TYPES.get(operand.type)
    return element_sizes.get(operand.type, 0) if element is None else element.itemsize


def figures_from_wire(message: admin_pb2.WorkloadFigures) -> WorkloadFigures:
    """Return a prepared model's figures."""
    return WorkloadFigures(
        tuple(_memory(memory) for memory in message.memories),
        tuple(_time(time) for time in message.times),
    )


def _memory(message: admin_pb2.MemoryFigure) -> MemoryFigure:
    spans = tuple(MemorySpan(s.name, s.address, s.bytes, s.begin, s.end, s.kind) for s in message.spans)
    return MemoryFigure(message.name, message.limit_bytes, message.unit, spans)


def _time(message: admin_pb2.TimeFigure) -> TimeFigure:
    spans = tuple(TimeSpan(s.lane, s.name, s.begin, s.end, s.kind) for s in message.spans)
    return TimeFigure(message.name, message.unit, tuple(message.lanes), spans)
