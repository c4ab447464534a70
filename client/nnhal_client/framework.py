"""The framework seen by a client: load models, bind them to shared memory, run them.

Tensors lie in pools that client and devices share. No tensor byte crosses a socket.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Literal

from nnhal.arrays import Array
from nnhal.codec import memory_to_wire
from nnhal.codec.memory import location_to_wire
from nnhal.descriptor import Descriptor
from nnhal.endpoint import Endpoint
from nnhal.errors import DeadObjectError, HalError
from nnhal.extensions.values import Value
from nnhal.link import Channel, ChannelClosedError
from nnhal.memory import MappedPool, create_ashmem, open_pool
from nnhal.memory.arena import round_up
from nnhal.remote.calls import Calls
from nnhal.types import NO_DEADLINE, DataLocation, DeviceType, ErrorStatus, Memory
from nnhal.types.layout import Dimensions
from nnhal.v1 import framework_pb2 as wire
from nnhal.v1 import framework_pb2_grpc
from nnhal_client.explain.explanation import Explanation, explanation_from_wire
from nnhal_client.tensors import Tensor, mismatch, stored_inputs, tensor_from_wire

_ALIGNMENT = 64
_GUESS = 4096
"""Bytes for an output of unknown size, at first."""


class OutputTooSmallError(HalError):
    """An output did not fit its memory. ``dimensions`` has what is known of outputs by now, by name."""

    def __init__(self, message: str, dimensions: Mapping[str, Dimensions]) -> None:
        super().__init__(ErrorStatus.OUTPUT_INSUFFICIENT_SIZE, message)
        self.dimensions = dimensions


@dataclass(frozen=True, slots=True)
class Placement:
    """Where an operation runs: the user's nodes that it stands for, its type, the device, the step of the plan."""

    nodes: tuple[str, ...]
    operation: str
    device: str
    step: int


@dataclass(frozen=True, slots=True)
class Device:
    """A device as the framework knows it; ``type`` is None where it does not answer."""

    name: str
    version: str
    type: DeviceType | None
    pid: int
    available: bool


@dataclass(frozen=True, slots=True)
class StepReport:
    """What one step of a run took, nanoseconds and bytes."""

    device: str
    duration_ns: int
    time_on_device_ns: int
    time_in_driver_ns: int
    copied_bytes: int
    copy_duration_ns: int


@dataclass(frozen=True, slots=True)
class RunReport:
    """What a run took in the framework, nanoseconds and bytes.

    ``steps`` only where the binding measures; ``dimensions`` of outputs of which a device has said any.
    """

    duration_ns: int
    socket_bytes: int
    steps: tuple[StepReport, ...]
    dimensions: Mapping[str, Dimensions]


class Framework:
    """A session with a framework process. Use as a context; closing it releases everything that it holds there."""

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        """Raises DeadObjectError where no framework serves at the directory."""
        self._calls = Calls(Endpoint(Path(directory).resolve(), "framework"), "nnhal-client")
        self._stub = framework_pb2_grpc.FrameworkServiceStub(self._calls.rpc)
        self._loaded = 0

    def devices(self) -> list[Device]:
        """The devices that the framework knows, in order of preference."""
        answer = self._calls.call(self._stub.ListDevices, wire.ListDevicesRequest())
        return [
            Device(d.name, d.version, DeviceType(d.type) if d.type else None, d.pid, d.available)
            for d in answer.devices
        ]

    def load(
        self,
        path: str | os.PathLike[str],
        devices: Sequence[str] = (),
        pins: Mapping[str, str] | None = None,
        partitioner: Literal["least_time", "nnapi", "cpu_only"] = "least_time",
        fallback: Literal["allow", "warn", "deny"] = "allow",
        min_nodes_per_partition: int = 1,
        cache_token: bytes = b"",
    ) -> Model:
        """Load a model file. ``devices`` are those that may be used, all by default; ``pins`` maps ``name:GLOB`` or
        ``op:TYPE`` to the device that must take it. The ``partitioner`` yields the plan of least modelled time, that of
        NNAPI's rule, or all on the CPU; partitions of fewer than ``min_nodes_per_partition`` operations are merged into
        others where that can be. ``fallback`` says what to do when a device fails.
        ``cache_token``, 32 bytes that stand for what is in the file, has compilations kept by the framework, where it
        has a directory for them, and used the next time.

        Raises OSError where the file cannot be opened, HalError where the model cannot be loaded.
        """
        descriptor = Descriptor(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
        self._loaded += 1
        request = wire.LoadModelRequest(
            name=f"{Path(path).stem}-{self._loaded}",
            descriptor_id=self._calls.issue(descriptor),
            devices=devices,
            pins=[wire.Pin(match=match, device=device) for match, device in (pins or {}).items()],
            partitioner=wire.Partitioner.Value(f"PARTITIONER_{partitioner.upper()}"),
            fallback=wire.Fallback.Value(f"FALLBACK_{fallback.upper()}"),
            min_nodes_per_partition=min_nodes_per_partition,
            cache_token=cache_token,
        )
        return Model(self._calls, self._stub, self._calls.call(self._stub.LoadModel, request).model)

    def close(self) -> None:
        """End the session."""
        self._calls.close()

    def __enter__(self) -> Framework:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def connect(directory: str | os.PathLike[str]) -> Framework:
    """A session with the framework process at a directory. Raises DeadObjectError where there is none."""
    return Framework(directory)


class Model:
    """A loaded model."""

    def __init__(self, calls: Calls, stub: framework_pb2_grpc.FrameworkServiceStub, info: wire.ModelInfo) -> None:
        self._calls = calls
        self._stub = stub
        self.name = info.name
        self.inputs = tuple(tensor_from_wire(tensor) for tensor in info.inputs)
        self.outputs = tuple(tensor_from_wire(tensor) for tensor in info.outputs)
        self.placements = tuple(Placement(tuple(p.nodes), p.operation, p.device, p.step) for p in info.placements)
        self.steps = tuple(info.steps)
        self.arena_bytes = info.arena_bytes
        self._binding: Binding | None = None
        self._known: dict[str, Dimensions] = {}

    def explain(self) -> Explanation:
        """Why it lies on its devices as it does, and what each edge costs."""
        answer = self._calls.call(self._stub.ExplainModel, wire.ExplainModelRequest(name=self.name))
        return explanation_from_wire(answer.explanation)

    def bind(
        self,
        measure_timing: bool = False,
        dimensions: Mapping[str, Dimensions] | None = None,
    ) -> Binding:
        """Shared memory for all inputs and outputs, ready to run.

        ``dimensions`` of inputs that the model leaves open, and of outputs as far as one knows: their memory has room
        for as much. Raises ValueError where an input's are missing, HalError where a device refuses.
        """
        return Binding(self._calls, self._stub, self, measure_timing, dimensions or {})

    def run(self, inputs: Mapping[str, Value]) -> dict[str, Value]:
        """One inference: copies the inputs into shared memory, runs, and returns copies of the outputs.

        Raises ValueError where the inputs are not what the model takes, HalError where a device refuses.
        """
        return self.run_with_report(inputs, measure_timing=False)[0]

    def run_with_report(
        self, inputs: Mapping[str, Value], measure_timing: bool = True
    ) -> tuple[dict[str, Value], RunReport]:
        """As run, with what it took. Outputs that turn out larger than their memory get more, and another run."""
        arrays = stored_inputs(self.inputs, inputs)
        given = {tensor.name: arrays[tensor.name].shape for tensor in self.inputs if tensor.is_open}
        while True:
            binding = self._binding_for(given, measure_timing)
            binding.fill(arrays)
            try:
                report = binding.run()
            except OutputTooSmallError as error:
                if error.dimensions.items() <= self._known.items():
                    raise  # it had as much memory as it asked for
                self._known.update(error.dimensions)
                self._forget()
            else:
                return {t.name: t.value(binding.outputs[t.name]) for t in self.outputs}, report

    def _binding_for(self, given: Mapping[str, Dimensions], measure_timing: bool) -> Binding:
        """The binding of the last run where it fits, else a new one."""
        binding = self._binding
        if binding is not None and (
            binding.measures != measure_timing or any(binding.dimensions[name] != d for name, d in given.items())
        ):
            self._forget()
        if self._binding is None:
            self._binding = self.bind(measure_timing, {**self._known, **given})
        return self._binding

    def _forget(self) -> None:
        if self._binding is not None:
            self._binding.close()
            self._binding = None

    def unload(self) -> None:
        """Release it in the framework and on the devices."""
        self._forget()
        self._calls.release(self._stub.UnloadModel, wire.UnloadModelRequest(name=self.name))


class Binding:
    """A model tied to memory of this process: write ``inputs``, call ``run``, read ``outputs``.

    ``inputs`` and ``outputs`` are numpy views of the memory that the devices use; those of outputs whose dimensions the
    model leaves open are right after a run. ``dimensions`` has what they were bound with. One run at a time.
    """

    def __init__(
        self,
        calls: Calls,
        stub: framework_pb2_grpc.FrameworkServiceStub,
        model: Model,
        measure_timing: bool,
        dimensions: Mapping[str, Dimensions],
    ) -> None:
        self._calls = calls
        self._stub = stub
        self.measures = measure_timing
        tensors = {tensor.name: tensor for tensor in model.outputs}
        self._open = [tensor for tensor in model.outputs if tensor.is_open]
        self.dimensions = {
            **{tensor.name: _input_dimensions(tensor, dimensions) for tensor in model.inputs},
            **{tensor.name: dimensions.get(tensor.name, tensor.dimensions) for tensor in model.outputs},
        }
        sizes = {
            **{t.name: max(1, t.bytes_of(self.dimensions[t.name])) for t in model.inputs},
            **{name: t.byte_size or max(_GUESS, t.bytes_of(self.dimensions[name])) for name, t in tensors.items()},
        }
        self._locations, size = _layout(sizes)
        self._memory: Memory = create_ashmem(size, "nnhal-client")
        pool = open_pool(self._memory, writable=True)
        if not isinstance(pool, MappedPool):
            raise TypeError("ashmem is mapped")
        self._pool = pool
        self.inputs = {t.name: self._view(t, self.dimensions[t.name]) for t in model.inputs}
        self.outputs = {t.name: self._view(t, (0,) if t.is_open else t.dimensions) for t in model.outputs}
        request = wire.BindRequest(
            model=model.name,
            inputs=[self._bound(t, self.dimensions[t.name] if t.is_open else ()) for t in model.inputs],
            outputs=[self._bound(tensor, ()) for tensor in model.outputs],
            pools=[memory_to_wire(self._memory, calls.issue)],
            measure_timing=measure_timing,
        )
        answer = calls.call(stub.Bind, request)
        self._handle = answer.binding
        self._channel: Channel = calls.take_channel(answer.channel_descriptor_id)
        self._call = wire.RunCall(deadline_ns=NO_DEADLINE).SerializeToString()

    @property
    def socket_bytes(self) -> int:
        """Bytes that went over the binding's channel, both ways."""
        return self._channel.bytes_sent + self._channel.bytes_received

    def fill(self, inputs: Mapping[str, Array]) -> None:
        """Copy arrays into the inputs. Raises ValueError where names, element types or dimensions differ."""
        if inputs.keys() != self.inputs.keys():
            raise ValueError(f"got inputs {sorted(inputs)}, expected {sorted(self.inputs)}")
        for name, view in self.inputs.items():
            given = inputs[name]
            if given.dtype != view.dtype or given.shape != view.shape:
                raise ValueError(mismatch(name, given, view.dtype, view.shape))
            view[...] = given

    def run(self, deadline_ns: int = NO_DEADLINE) -> RunReport:
        """Run it once. ``deadline_ns`` is an instant of CLOCK_BOOTTIME.

        Raises HalError where a device refuses or misses the deadline, DeadObjectError where the framework is gone.
        """
        call = self._call
        if deadline_ns != NO_DEADLINE:
            call = wire.RunCall(deadline_ns=deadline_ns).SerializeToString()
        try:
            self._channel.send(call)
            answer = wire.RunAnswer.FromString(self._channel.receive())
        except ChannelClosedError as error:
            raise DeadObjectError(f"the framework at {self._calls.endpoint.directory}: {error}") from error
        if ErrorStatus(answer.status) == ErrorStatus.OUTPUT_INSUFFICIENT_SIZE:
            raise OutputTooSmallError(answer.message, _dimensions(answer.report))
        if answer.status:
            raise HalError(ErrorStatus(answer.status), answer.message)
        report = _report(answer.report)
        for tensor in self._open:
            found = report.dimensions.get(tensor.name)
            if found is not None:
                self.outputs[tensor.name] = self._view(tensor, found)
        return report

    def close(self) -> None:
        """Release it in the framework and on the devices. The views stay valid."""
        self._channel.close()
        self._calls.release(self._stub.Unbind, wire.UnbindRequest(binding=self._handle))

    def _view(self, tensor: Tensor, dimensions: Dimensions) -> Array:
        size = tensor.bytes_of(dimensions)
        raw = self._pool.view(self._locations[tensor.name].offset, max(1, size))[:size]
        return raw.view(tensor.stored).reshape(dimensions)

    def _bound(self, tensor: Tensor, dimensions: Dimensions) -> wire.TensorBinding:
        location = location_to_wire(self._locations[tensor.name])
        return wire.TensorBinding(name=tensor.name, location=location, dimensions=dimensions)


def _input_dimensions(tensor: Tensor, dimensions: Mapping[str, Dimensions]) -> Dimensions:
    if not tensor.is_open:
        return tensor.dimensions
    if tensor.name not in dimensions:
        raise ValueError(f"tensor {tensor.name!r} has dimensions {list(tensor.dimensions)}, expected all known")
    return dimensions[tensor.name]


def _layout(sizes: Mapping[str, int]) -> tuple[dict[str, DataLocation], int]:
    """Where tensors lie in one pool, each aligned, and the pool's bytes."""
    locations: dict[str, DataLocation] = {}
    offset = 0
    for name, size in sizes.items():
        locations[name] = DataLocation(0, offset, size)
        offset += round_up(size, _ALIGNMENT)
    return locations, offset


def _dimensions(message: wire.RunReport) -> dict[str, Dimensions]:
    return {output.name: tuple(output.dimensions) for output in message.outputs}


def _report(message: wire.RunReport) -> RunReport:
    steps = tuple(
        StepReport(
            s.device, s.duration_ns, s.time_on_device_ns, s.time_in_driver_ns, s.copied_bytes, s.copy_duration_ns
        )
        for s in message.steps
    )
    return RunReport(message.duration_ns, message.socket_bytes, steps, _dimensions(message))
