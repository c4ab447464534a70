"""The framework seen by a client: load models, bind them to shared memory, run them.

Tensors lie in pools that client and devices share. No tensor byte crosses a socket.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Literal

from nnhal.arrays import Array
from nnhal.codec import memory_to_wire, model_to_wire
from nnhal.codec.memory import location_to_wire
from nnhal.codec.model import extension_names_to_wire
from nnhal.codec.request import hints_to_wire
from nnhal.descriptor import Descriptor
from nnhal.endpoint import Endpoint
from nnhal.errors import DeadObjectError, HalError, NnhalError, TransportError
from nnhal.extensions.values import Value
from nnhal.link import Channel, ChannelClosedError, ProtocolError
from nnhal.memory import MappedPool, create_ashmem, open_pool
from nnhal.remote.calls import Calls
from nnhal.tensors import GUESS, Tensor, lay_out, mismatch, stored_inputs
from nnhal.types import NO_DEADLINE, NO_HINTS, DeviceType, ErrorStatus, ExecutionPreference, Hints, Memory, Priority
from nnhal.types import Model as HalModel
from nnhal.types.layout import Dimensions
from nnhal.v1 import framework_pb2 as wire
from nnhal.v1 import framework_pb2_grpc, types_pb2
from nnhal_client.direct import DirectBurst, Exchanges
from nnhal_client.explain.explanation import Explanation, explanation_from_wire
from nnhal_client.memory import DomainMemory, MemoryRole
from nnhal_client.reports import RunReport, dimensions_from_wire, report_from_wire
from nnhal_client.tensors import tensor_from_wire


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

    def open(self, name: str, version: str = "") -> Model:
        """A model of the server's repository, the newest version that is ready where none is named.

        The server may unload it at any time; ``Model.run`` opens it again where it was only loaded anew. Raises
        HalError: INVALID_ARGUMENT where there is no such model, DEVICE_UNAVAILABLE where it is not ready.
        """
        self._loaded += 1
        request = wire.OpenModelRequest(model=name, version=version, name=f"{name}-{self._loaded}")
        return Model(self._calls, self._stub, self._calls.call(self._stub.OpenModel, request), request)

    def load_model(
        self,
        model: HalModel,
        devices: Sequence[str] = (),
        pins: Mapping[str, str] | None = None,
        partitioner: Literal["least_time", "nnapi", "cpu_only"] = "least_time",
        fallback: Literal["allow", "warn", "deny"] = "allow",
        min_nodes_per_partition: int = 1,
        cache_token: bytes = b"",
        preference: ExecutionPreference = ExecutionPreference.FAST_SINGLE_ANSWER,
        priority: Priority = Priority.MEDIUM,
        deadline_ns: int = NO_DEADLINE,
        hints: Hints = NO_HINTS,
    ) -> Model:
        """Load a model of the HAL. Its inputs are called ``input0`` and so on, its outputs ``output0``, and its
        operations ``operation0``, by their indexes in the model; those may be listed in any order.

        ``preference`` and ``priority`` are what devices are told, ``deadline_ns`` is the instant of CLOCK_BOOTTIME when
        all of them must have prepared their parts; ``hints`` are for them too. The rest as ``load``. Raises HalError
        where the model cannot be loaded.
        """
        self._loaded += 1
        request = wire.LoadModelRequest(
            name=f"model-{self._loaded}",
            model=model_to_wire(model, self._calls.issue),
            devices=devices,
            pins=[wire.Pin(match=match, device=device) for match, device in (pins or {}).items()],
            partitioner=wire.Partitioner.Value(f"PARTITIONER_{partitioner.upper()}"),
            fallback=wire.Fallback.Value(f"FALLBACK_{fallback.upper()}"),
            min_nodes_per_partition=min_nodes_per_partition,
            cache_token=cache_token,
            preference=types_pb2.ExecutionPreference.ValueType(preference),
            priority=types_pb2.Priority.ValueType(priority),
            deadline_ns=deadline_ns,
            hints=hints_to_wire(hints.values),
            hint_extensions=extension_names_to_wire(hints.extension_names),
        )
        return Model(self._calls, self._stub, self._calls.call(self._stub.LoadModel, request).model)

    def allocate(self, roles: Sequence[MemoryRole], dimensions: Dimensions = ()) -> DomainMemory:
        """Memory for certain inputs and outputs of loaded models: a buffer of a device's own where one device alone
        uses it and has one to give, else shared memory of the host. ``dimensions`` narrow those of the tensors.

        Raises HalError: INVALID_ARGUMENT where the roles do not agree, GENERAL_FAILURE where no device has such memory
        and a model's fallback is deny or the size is not known.
        """
        return DomainMemory(self._calls, self._stub, roles, dimensions)

    @property
    def calls(self) -> Calls:
        """The session, for what this class has no method for."""
        return self._calls

    @property
    def stub(self) -> framework_pb2_grpc.FrameworkServiceStub:
        """The methods of FrameworkService, to be called through ``calls``."""
        return self._stub

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
    """A loaded model, or one of the server's repository; that has a ``version``.

    ``session_name`` is by what the framework knows it in this session, and ``MemoryRole`` speaks of it.
    """

    transport: Literal["native"] = "native"
    """How tensors travel: not at all, they lie in memory that client and devices share."""

    def __init__(
        self,
        calls: Calls,
        stub: framework_pb2_grpc.FrameworkServiceStub,
        answer: wire.ModelInfo | wire.OpenModelResponse,
        opened: wire.OpenModelRequest | None = None,
    ) -> None:
        """``opened`` is how to open it again."""
        self._calls = calls
        self._stub = stub
        self._opened = opened
        self._reopened = 0
        self._binding: Binding | None = None
        self._known: dict[str, Dimensions] = {}
        self._describe(answer)

    def _describe(self, answer: wire.ModelInfo | wire.OpenModelResponse) -> None:
        info = answer.model if isinstance(answer, wire.OpenModelResponse) else answer
        self.version = answer.version if isinstance(answer, wire.OpenModelResponse) else ""
        self.session_name = info.name
        self.name = info.name if self._opened is None else self._opened.model
        self.inputs = tuple(tensor_from_wire(tensor) for tensor in info.inputs)
        self.outputs = tuple(tensor_from_wire(tensor) for tensor in info.outputs)
        self.placements = tuple(Placement(tuple(p.nodes), p.operation, p.device, p.step) for p in info.placements)
        self.steps = tuple(info.steps)
        self.arena_bytes = info.arena_bytes

    def explain(self) -> Explanation:
        """Why it lies on its devices as it does, and what each edge costs."""
        answer = self._calls.call(self._stub.ExplainModel, wire.ExplainModelRequest(name=self.session_name))
        return explanation_from_wire(answer.explanation)

    def bind(
        self,
        measure_timing: bool = False,
        dimensions: Mapping[str, Dimensions] | None = None,
        memories: Mapping[str, DomainMemory] | None = None,
        direct: bool = True,
    ) -> Binding:
        """Shared memory for all inputs and outputs, ready to run.

        ``dimensions`` of inputs that the model leaves open, and of outputs as far as one knows: their memory has room
        for as much. ``memories``, by input or output, take the place of shared memory: the binding has no views of
        them. With ``direct`` runs go straight to the device, where plan and framework allow it and nothing is measured.
        Raises ValueError where an input's dimensions are missing, HalError where a device refuses.
        """
        return Binding(self._calls, self._stub, self, measure_timing, dimensions or {}, memories or {}, direct)

    def input_role(self, name: str, probability: float = 1.0) -> MemoryRole:
        """Memory's use as an input. Raises ValueError where there is none of that name."""
        return MemoryRole(self.session_name, False, _index(self.inputs, name, "input"), probability)

    def output_role(self, name: str, probability: float = 1.0) -> MemoryRole:
        """Memory's use as an output. Raises ValueError where there is none of that name."""
        return MemoryRole(self.session_name, True, _index(self.outputs, name, "output"), probability)

    def run(self, inputs: Mapping[str, Value]) -> dict[str, Value]:
        """One inference: copies the inputs into shared memory, runs, and returns copies of the outputs.

        Raises ValueError where the inputs are not what the model takes, HalError where a device refuses.
        """
        return self.run_with_report(inputs, measure_timing=False)[0]

    def run_with_report(
        self, inputs: Mapping[str, Value], measure_timing: bool = True
    ) -> tuple[dict[str, Value], RunReport]:
        """As run, with what it took. Outputs that turn out larger than their memory get more, and another run."""
        try:
            return self._run(inputs, measure_timing)
        except HalError as error:
            if not self.can_reopen or error.status != ErrorStatus.DEVICE_UNAVAILABLE:
                raise
            self.reopen()
        return self._run(inputs, measure_timing)

    @property
    def can_reopen(self) -> bool:
        """Whether it is one of the server's repository."""
        return self._opened is not None

    def reopen(self) -> None:
        """Open it again after the server has unloaded it. Raises HalError where it has not loaded it anew."""
        if self._opened is None:
            raise ValueError(f"model {self.name!r} is none of the server's repository")
        self._reopened += 1
        request = wire.OpenModelRequest()
        request.CopyFrom(self._opened)
        request.name += f".{self._reopened}"
        answer = self._calls.call(self._stub.OpenModel, request)
        self.unload()
        self._known.clear()
        self._describe(answer)

    def _run(self, inputs: Mapping[str, Value], measure_timing: bool) -> tuple[dict[str, Value], RunReport]:
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
        self._calls.release(self._stub.UnloadModel, wire.UnloadModelRequest(name=self.session_name))


class Binding:
    """A model tied to memory of this process: write ``inputs``, call ``run``, read ``outputs``.

    ``inputs`` and ``outputs`` are numpy views of the memory that the devices use, but for those in memory of
    ``Framework.allocate``; those of outputs whose dimensions the model leaves open are right after a run.
    ``dimensions`` has what they were bound with. One run at a time.
    """

    def __init__(
        self,
        calls: Calls,
        stub: framework_pb2_grpc.FrameworkServiceStub,
        model: Model,
        measure_timing: bool,
        dimensions: Mapping[str, Dimensions],
        memories: Mapping[str, DomainMemory],
        direct: bool,
    ) -> None:
        self._calls = calls
        self._stub = stub
        self.measures = measure_timing
        names = {tensor.name for tensor in (*model.inputs, *model.outputs)}
        if not memories.keys() <= names:
            raise ValueError(f"got memory for {sorted(memories)}, expected some of {sorted(names)}")
        self._memories = dict(memories)
        inputs = [tensor for tensor in model.inputs if tensor.name not in memories]
        outputs = [tensor for tensor in model.outputs if tensor.name not in memories]
        self._open = [tensor for tensor in outputs if tensor.is_open]
        self.dimensions = {
            **{tensor.name: dimensions.get(tensor.name, tensor.dimensions) for tensor in model.inputs},
            **{tensor.name: _input_dimensions(tensor, dimensions) for tensor in inputs},
            **{tensor.name: dimensions.get(tensor.name, tensor.dimensions) for tensor in model.outputs},
        }
        sizes = {
            **{t.name: max(1, t.bytes_of(self.dimensions[t.name])) for t in inputs},
            **{t.name: t.byte_size or max(GUESS, t.bytes_of(self.dimensions[t.name])) for t in outputs},
        }
        self._locations, size = lay_out(sizes)
        self._memory: Memory = create_ashmem(max(1, size), "nnhal-client")
        pool = open_pool(self._memory, writable=True)
        if not isinstance(pool, MappedPool):
            raise TypeError("ashmem is mapped")
        self._pool = pool
        self.inputs = {t.name: self._view(t, self.dimensions[t.name]) for t in inputs}
        self.outputs = {t.name: self._view(t, (0,) if t.is_open else t.dimensions) for t in outputs}
        request = wire.BindRequest(
            model=model.session_name,
            inputs=[self._bound(t, self.dimensions[t.name] if t.is_open else ()) for t in model.inputs],
            outputs=[self._bound(tensor, ()) for tensor in model.outputs],
            pools=[memory_to_wire(self._memory, calls.issue)],
            measure_timing=measure_timing,
            direct=direct and not measure_timing,
        )
        answer = calls.call(stub.Bind, request)
        self._handle = answer.binding
        self._channel: Channel = calls.take_channel(answer.channel_descriptor_id)
        self._direct = DirectBurst(calls, answer.direct) if answer.HasField("direct") else None
        self._call = wire.RunCall(deadline_ns=NO_DEADLINE).SerializeToString()

    @property
    def socket_bytes(self) -> int:
        """Bytes that went over the binding's channels, both ways."""
        channels = [self._channel, *([] if self._direct is None else [self._direct.channel])]
        return sum(channel.bytes_sent + channel.bytes_received for channel in channels)

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
        exchanges = self.exchanges(deadline_ns)
        try:
            channel, message = next(exchanges)
            while True:
                try:
                    channel.send(message)
                    answer = channel.receive()
                except NnhalError as error:
                    channel, message = exchanges.throw(error)
                else:
                    channel, message = exchanges.send(answer)
        except StopIteration as end:
            report: RunReport = end.value
            return report

    def exchanges(self, deadline_ns: int = NO_DEADLINE) -> Exchanges:
        """A run, for who waits for answers in a way of his own. Raises as ``run``."""
        direct = self._direct
        if direct is not None and deadline_ns == NO_DEADLINE:
            try:
                return (yield from direct.exchanges())
            except (ChannelClosedError, ProtocolError, TransportError):  # the framework knows why
                self._direct = None
                direct.close()
            except HalError:
                if not direct.may_fall_back:
                    raise
        return (yield from self._exchanges(deadline_ns))

    def _exchanges(self, deadline_ns: int) -> Exchanges:
        call = self._call
        if deadline_ns != NO_DEADLINE:
            call = wire.RunCall(deadline_ns=deadline_ns).SerializeToString()
        called_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME) if self.measures else -1
        try:
            answer = wire.RunAnswer.FromString((yield self._channel, call))
        except ChannelClosedError as error:
            raise DeadObjectError(f"the framework at {self._calls.endpoint.directory}: {error}") from error
        if ErrorStatus(answer.status) == ErrorStatus.OUTPUT_INSUFFICIENT_SIZE:
            raise OutputTooSmallError(answer.message, dimensions_from_wire(answer.report))
        if answer.status:
            raise HalError(ErrorStatus(answer.status), answer.message)
        answered_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME) if self.measures else -1
        report = report_from_wire(answer.report, called_ns, answered_ns)
        for tensor in self._open:
            found = report.dimensions.get(tensor.name)
            if found is not None:
                self.outputs[tensor.name] = self._view(tensor, found)
        return report

    def close(self) -> None:
        """Release it in the framework and on the devices. The views stay valid."""
        if self._direct is not None:
            self._direct.close()
        self._channel.close()
        self._calls.release(self._stub.Unbind, wire.UnbindRequest(binding=self._handle))

    def _view(self, tensor: Tensor, dimensions: Dimensions) -> Array:
        return tensor.view(self._pool, self._locations[tensor.name].offset, dimensions)

    def _bound(self, tensor: Tensor, dimensions: Dimensions) -> wire.TensorBinding:
        memory = self._memories.get(tensor.name)
        if memory is not None:
            return wire.TensorBinding(name=tensor.name, memory=memory.handle, dimensions=dimensions)
        location = location_to_wire(self._locations[tensor.name])
        return wire.TensorBinding(name=tensor.name, location=location, dimensions=dimensions)


def _index(tensors: Sequence[Tensor], name: str, what: str) -> int:
    names = [tensor.name for tensor in tensors]
    if name not in names:
        raise ValueError(f"no {what} {name!r}; there are {names}")
    return names.index(name)


def _input_dimensions(tensor: Tensor, dimensions: Mapping[str, Dimensions]) -> Dimensions:
    if not tensor.is_open:
        return tensor.dimensions
    if tensor.name not in dimensions:
        raise ValueError(f"tensor {tensor.name!r} has dimensions {list(tensor.dimensions)}, expected all known")
    return dimensions[tensor.name]
