"""The framework seen by a client: load models, bind them to shared memory, run them.

Tensors lie in pools that client and devices share. No tensor byte crosses a socket.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from nnhal.arrays import Array
from nnhal.codec import memory_to_wire
from nnhal.codec.memory import location_to_wire
from nnhal.descriptor import Descriptor
from nnhal.endpoint import Endpoint
from nnhal.errors import DeadObjectError, HalError, TransportError
from nnhal.link import Channel, ChannelClosedError
from nnhal.memory import MappedPool, create_ashmem, open_pool
from nnhal.memory.arena import round_up
from nnhal.remote.calls import Calls
from nnhal.types import NO_DEADLINE, DataLocation, DeviceType, ErrorStatus, Memory, OperandType
from nnhal.types.layout import ELEMENT_TYPES, Dimensions
from nnhal.v1 import framework_pb2 as wire
from nnhal.v1 import framework_pb2_grpc

_ALIGNMENT = 64


@dataclass(frozen=True, slots=True)
class Tensor:
    """An input or output of a model. Quantised ones: real = (value - zero_point) * scale."""

    name: str
    type: OperandType
    dimensions: Dimensions
    byte_size: int
    scale: float
    zero_point: int


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
    """What a run took in the framework, nanoseconds and bytes; ``steps`` only where the binding measures."""

    duration_ns: int
    socket_bytes: int
    steps: tuple[StepReport, ...]


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
    ) -> Model:
        """Load a model file. ``devices`` are those that may be used, all by default; ``pins`` maps ``name:GLOB`` or
        ``op:TYPE`` to the device that must take it.

        Raises OSError where the file cannot be opened, HalError where the model cannot be loaded.
        """
        descriptor = Descriptor(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
        self._loaded += 1
        request = wire.LoadModelRequest(
            name=f"{Path(path).stem}-{self._loaded}",
            descriptor_id=self._calls.issue(descriptor),
            devices=devices,
            pins=[wire.Pin(match=match, device=device) for match, device in (pins or {}).items()],
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
        self.inputs = tuple(_tensor(tensor) for tensor in info.inputs)
        self.outputs = tuple(_tensor(tensor) for tensor in info.outputs)
        self.placements = tuple(Placement(tuple(p.nodes), p.operation, p.device, p.step) for p in info.placements)
        self.steps = tuple(info.steps)
        self.arena_bytes = info.arena_bytes
        self._binding: Binding | None = None

    def bind(self, measure_timing: bool = False) -> Binding:
        """Shared memory for all inputs and outputs, ready to run. Raises HalError."""
        return Binding(self._calls, self._stub, self, measure_timing)

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """One inference: copies the inputs into shared memory, runs, and returns copies of the outputs.

        Raises ValueError where the inputs are not what the model takes, HalError where a device refuses.
        """
        if self._binding is None:
            self._binding = self.bind()
        self._binding.fill(inputs)
        self._binding.run()
        return {name: view.copy() for name, view in self._binding.outputs.items()}

    def unload(self) -> None:
        """Release it in the framework and on the devices."""
        self._binding = None
        self._calls.release(self._stub.UnloadModel, wire.UnloadModelRequest(name=self.name))


class Binding:
    """A model tied to memory of this process: write ``inputs``, call ``run``, read ``outputs``.

    ``inputs`` and ``outputs`` are numpy views of the memory that the devices use. One run at a time.
    """

    def __init__(
        self, calls: Calls, stub: framework_pb2_grpc.FrameworkServiceStub, model: Model, measure_timing: bool
    ) -> None:
        self._calls = calls
        self._stub = stub
        locations, size = _layout(model.inputs + model.outputs)
        self._memory: Memory = create_ashmem(size, "nnhal-client")
        pool = open_pool(self._memory, writable=True)
        if not isinstance(pool, MappedPool):
            raise TypeError("ashmem is mapped")
        self.inputs = {tensor.name: _view(pool, tensor, locations[tensor.name]) for tensor in model.inputs}
        self.outputs = {tensor.name: _view(pool, tensor, locations[tensor.name]) for tensor in model.outputs}
        request = wire.BindRequest(
            model=model.name,
            inputs=[_bound(tensor, locations) for tensor in model.inputs],
            outputs=[_bound(tensor, locations) for tensor in model.outputs],
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
                raise ValueError(
                    f"input {name!r} is {given.dtype} {list(given.shape)}, expected {view.dtype} {list(view.shape)}"
                )
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
        if answer.status:
            raise HalError(ErrorStatus(answer.status), answer.message)
        return _report(answer.report)

    def close(self) -> None:
        """Release it in the framework and on the devices. The views stay valid."""
        self._channel.close()
        self._calls.release(self._stub.Unbind, wire.UnbindRequest(binding=self._handle))


def _layout(tensors: Sequence[Tensor]) -> tuple[dict[str, DataLocation], int]:
    """Where tensors lie in one pool, each aligned, and the pool's bytes."""
    locations: dict[str, DataLocation] = {}
    offset = 0
    for tensor in tensors:
        if tensor.byte_size == 0:
            raise ValueError(f"tensor {tensor.name!r} has dimensions {list(tensor.dimensions)}, expected all known")
        locations[tensor.name] = DataLocation(0, offset, tensor.byte_size)
        offset += round_up(tensor.byte_size, _ALIGNMENT)
    return locations, offset


def _view(pool: MappedPool, tensor: Tensor, location: DataLocation) -> Array:
    raw = pool.view(location.offset, location.length)
    return raw.view(ELEMENT_TYPES[tensor.type]).reshape(tensor.dimensions)


def _bound(tensor: Tensor, locations: Mapping[str, DataLocation]) -> wire.TensorBinding:
    return wire.TensorBinding(name=tensor.name, location=location_to_wire(locations[tensor.name]))


def _tensor(message: wire.TensorInfo) -> Tensor:
    if message.type not in ELEMENT_TYPES:
        raise TransportError(f"tensor {message.name!r} is of type {message.type}, which this client does not know")
    return Tensor(
        message.name,
        OperandType(message.type),
        tuple(message.dimensions),
        message.byte_size,
        message.scale,
        message.zero_point,
    )


def _report(message: wire.RunReport) -> RunReport:
    steps = tuple(
        StepReport(
            s.device, s.duration_ns, s.time_on_device_ns, s.time_in_driver_ns, s.copied_bytes, s.copy_duration_ns
        )
        for s in message.steps
    )
    return RunReport(message.duration_ns, message.socket_bytes, steps)
