"""A session with a framework: load models, bind them to shared memory, run them.

Tensors lie in pools that client and devices share. No tensor byte crosses a socket.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar, Unpack

import numpy as np

from nnhal.codec import model_to_wire
from nnhal.codec.model import extension_names_to_wire
from nnhal.codec.request import hints_to_wire
from nnhal.contexts import Closing
from nnhal.descriptor import Descriptor
from nnhal.endpoint import Endpoint
from nnhal.errors import HalError, general_failure
from nnhal.external_data import opened_external_data
from nnhal.given_files import open_given_file
from nnhal.memory import create_read_only
from nnhal.remote.calls import Calls
from nnhal.types import (
    NO_DEADLINE,
    NO_HINTS,
    Ashmem,
    DeviceType,
    ErrorStatus,
    ExecutionPreference,
    Hints,
    Priority,
)
from nnhal.types import Model as HalModel
from nnhal.types.layout import Dimensions
from nnhal.v1 import framework_pb2 as wire
from nnhal.v1 import framework_pb2_grpc, types_pb2
from nnhal_client.core.load_options import FileKeywords, FileOptions, PlacementKeywords, PlacementOptions, pins_to_wire
from nnhal_client.core.model_runs import CONCURRENCY
from nnhal_client.memory import DomainMemory, MemoryRole
from nnhal_client.model import Model
from nnhal_client.planned import ModelPlan, plan_from_wire
from nnhal_client.tensors import ReservedDimensions

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class DeviceInfo:
    """A device as the framework knows it."""

    name: str
    version: str
    type: DeviceType | None
    """None if the device does not answer."""
    pid: int
    available: bool


class Framework(Closing):
    """A session with a framework process. Use as a context; closing it releases everything that it holds there.

    Safe to use from several threads.
    """

    def __init__(self, directory: str | os.PathLike[str], concurrency: int = CONCURRENCY) -> None:
        """Of each model at most ``concurrency`` runs are under way at a time.

        Raises DeadObjectError if no framework serves at the directory.
        """
        self._calls = Calls(Endpoint(Path(directory).resolve(), "framework"), "nnhal-client")
        self._stub = framework_pb2_grpc.FrameworkServiceStub(self._calls.rpc)
        self._concurrency = concurrency
        self._loaded = 0
        self.successor: Framework | None = None
        """The session that has taken the place of this one, whose framework has gone; it ends with this."""
        self.is_closed = False
        """True if the session was ended here."""

    def devices(self) -> list[DeviceInfo]:
        answer = self._calls.call(self._stub.ListDevices, wire.ListDevicesRequest())
        return [
            DeviceInfo(d.name, d.version, DeviceType(d.type) if d.type else None, d.pid, d.available)
            for d in answer.devices
        ]

    def load(
        self,
        path: str | os.PathLike[str] | None = None,
        devices: Sequence[str] = (),
        pins: Mapping[str, str] | None = None,
        *,
        plan: ModelPlan | None = None,
        group: int = 0,
        **options: Unpack[FileKeywords],
    ) -> Model:
        """Load a model file, or a ``group`` of a ``plan``, which has all else: nothing is imported or asked again then.
        A file in ONNX is loaded with the files beside it in which it says that it has values.

        ``devices`` are those that may be used, all by default; ``pins`` maps ``name:GLOB``, ``op:TYPE`` or ``index:N``
        to the device that must take it. The ``partitioner`` yields the plan of least modelled time, that of NNAPI's
        rule, or all on the CPU; partitions of fewer than ``min_nodes_per_partition`` operations are merged into others
        if possible.
        ``fallback`` says what to do when a device fails. With a ``cache_token``, 32 bytes that stand for what is in the
        file, a framework that has a directory for compilations keeps them and uses them the next time. ``relaxed`` lets
        devices compute float32 with the range and precision of float16. ``dimensions``, by input, take the place of
        those that the file leaves open; one that is 0 stays open. ``states`` maps inputs to the outputs that are their
        next values: each binding carries them from run to run on the devices, from zeros on. If ``dimensions`` has a
        range for an axis of such an input, as in ``(1, 4, (0, 512), 32)``, the state begins with the first length, 0 an
        empty one, and may grow to the second, without a limit if that is None. ``signature`` is the entry point of a
        TFLite file that names some (``Model.signatures``): inputs and outputs then have the names that it gives them.
        ``weights`` is memory with values, by the names of files that the model has for it; devices use it in place if
        it is sealed against writing (``nnhal.memory.create_read_only``).

        Raises OSError if the file cannot be opened, TypeError or ValueError if ``path`` is none, HalError if the model
        cannot be loaded.
        """
        given = FileOptions(devices=devices, pins=pins, **options)
        request = given.request()
        if plan is not None:
            if path is not None or given.weights or request != FileOptions().request():
                raise TypeError("got a plan and what it has already, expected no other arguments but a group")
            return self._load("plan", wire.LoadModelRequest(plan=plan.handle, group=group))
        file = Path(_require_path(path)).absolute()
        model = self._asked(file, request, _descriptors(given.weights), lambda: self._load(file.stem, request))
        model.placements_of = partial(self._placements_of, file, _identity(file), request, given.weights)
        return model

    def plan(
        self,
        model: str | os.PathLike[str] | bytes,
        devices: Sequence[str] = (),
        pins: Mapping[str, str] | None = None,
        *,
        leaves_nodes: bool = False,
        explains: bool = False,
        keeps: Sequence[int] = (),
        operators: Sequence[str] = (),
        tensor_dimensions: Mapping[int, Dimensions] | None = None,
        **options: Unpack[FileKeywords],
    ) -> ModelPlan:
        """Plan a model, by its path or its content, without having any device prepare anything.

        With ``leaves_nodes`` nodes that no device takes are left to the caller, as are those that it ``keeps`` by their
        indices and those of other types than ``operators``, if some are given. The others are in groups that can be
        loaded one by one; groups of fewer than ``min_nodes_per_partition`` nodes are left too. Otherwise the only group
        is the whole model. ``tensor_dimensions`` count instead of those of a TFLite file, by the indices of its
        tensors, with -1 for an axis that only a run gives. The other arguments are those of ``load``; with ``explains``
        each group has an explanation. The framework keeps the plan for this session until it is released, or not used
        for ``ModelPlan.kept_seconds``.

        Raises as ``load`` does.
        """
        given = FileOptions(devices=devices, pins=pins, **options)
        request = given.request()
        for index, lengths in (tensor_dimensions or {}).items():
            request.tensor_dimensions.add(tensor=index, dimensions=lengths)

        def ask() -> ModelPlan:
            asked = wire.PlanModelRequest(
                model=request, leaves_nodes=leaves_nodes, explains=explains, keeps=keeps, operators=operators
            )
            return plan_from_wire(self._calls.call(self._stub.PlanModel, asked))

        files = _descriptors(given.weights)
        if not isinstance(model, bytes):
            path = _require_path(model)
            if leaves_nodes:  # nodes without their weights would be left, and nothing refused
                files |= _external_data(path, files)
            return self._asked(path, request, files, ask)
        content = np.frombuffer(model, np.uint8)
        memory = create_read_only([(0, content)], len(content), "nnhal-model")
        request.descriptor_id = self._calls.issue(memory.descriptor)
        self._add_weights(request, files)
        return ask()

    def release(self, plan: ModelPlan) -> None:
        """Have the framework forget a plan; harmless when repeated. Models that were loaded from it stay."""
        self._calls.call(self._stub.ReleasePlan, wire.ReleasePlanRequest(plan=plan.handle))

    def open(
        self, name: str, version: str = "", pins: Mapping[str, str] | None = None, devices: Sequence[str] = ()
    ) -> Model:
        """A model of the server's repository, by default in the newest version that is ready.

        The server may unload it at any time; ``Model.run`` opens it again if the server has loaded it again. With
        ``pins`` or ``devices``, which are as in ``load``, the session gets a plan of its own by these pins instead of
        the server's, and keeps it whatever the server does. Raises HalError: INVALID_ARGUMENT if the model is unknown
        or a pin cannot be kept, DEVICE_UNAVAILABLE if it is not ready.
        """
        request = wire.OpenModelRequest(
            model=name, version=version, name=self._session_name(name), pins=pins_to_wire(pins), devices=devices
        )
        answer = self._calls.call(self._stub.OpenModel, request)
        return Model(self._calls, self._stub, answer, request, self._concurrency)

    def load_model(
        self,
        model: HalModel,
        devices: Sequence[str] = (),
        pins: Mapping[str, str] | None = None,
        *,
        preference: ExecutionPreference = ExecutionPreference.FAST_SINGLE_ANSWER,
        priority: Priority = Priority.MEDIUM,
        deadline_ns: int = NO_DEADLINE,
        hints: Hints = NO_HINTS,
        **options: Unpack[PlacementKeywords],
    ) -> Model:
        """Load a model of the HAL. Its inputs are called ``input0`` and so on, its outputs ``output0``, and its
        operations ``operation0``, by their indexes in the model; those may be listed in any order.

        ``preference`` and ``priority`` are passed to devices, ``deadline_ns`` is the instant of CLOCK_BOOTTIME when
        all of them must have prepared their parts; ``hints`` are for them too. The other arguments are those of
        ``load``. Raises HalError if the model cannot be loaded.
        """
        request = PlacementOptions(devices=devices, pins=pins, **options).request()
        request.model.CopyFrom(model_to_wire(model, self._calls.issue))
        request.preference = types_pb2.ExecutionPreference.ValueType(preference)
        request.priority = types_pb2.Priority.ValueType(priority)
        request.deadline_ns = deadline_ns
        request.hints.extend(hints_to_wire(hints.values))
        request.hint_extensions.extend(extension_names_to_wire(hints.extension_names))
        return self._load("model", request)

    def allocate(self, roles: Sequence[MemoryRole], dimensions: ReservedDimensions = ()) -> DomainMemory:
        """Memory for certain inputs and outputs of loaded models: a device's own buffer if only that device uses it and
        has one to give, else shared memory of the host. ``dimensions`` narrow those of the tensors. If one is a range,
        such as (0, 512), there is room for the most, on a device only, and each value has a length of its own. Memory
        of a range that begins with 0 holds an empty value at once.

        Raises HalError: INVALID_ARGUMENT if the roles do not agree, GENERAL_FAILURE if no device has such memory and a
        model's fallback is deny or the size is not known. Raises ValueError if a range is none.
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
        self.is_closed = True
        self._calls.close()
        if self.successor is not None:
            self.successor.close()

    def _asked(
        self,
        path: str | os.PathLike[str],
        request: wire.LoadModelRequest,
        weights: Mapping[str, Descriptor],
        ask: Callable[[], T],
    ) -> T:
        """Hand over a model file and ``weights``, and ask; once more with the files that it names if it needs these.

        The descriptors must live as long as the question.
        """
        with open_given_file(path, "a model") as file:
            descriptor = Descriptor(os.dup(file.fileno()))
        request.descriptor_id = self._calls.issue(descriptor)
        self._add_weights(request, weights)
        try:
            return ask()
        except HalError as refusal:
            # A model that needs no other files is not searched for their names.
            others = _external_data(path, weights) if refusal.status == ErrorStatus.INVALID_ARGUMENT else {}
            if not others:
                raise
        self._add_weights(request, others)
        return ask()

    def _add_weights(self, request: wire.LoadModelRequest, files: Mapping[str, Descriptor]) -> None:
        for location, file in files.items():
            request.weights.add(location=location, descriptor_id=self._calls.issue(file))

    def _load(self, stem: str, request: wire.LoadModelRequest) -> Model:
        request.name = self._session_name(stem)
        request.defers_placements = not request.plan
        answer = self._calls.call(self._stub.LoadModel, request).model
        return Model(self._calls, self._stub, answer, concurrency=self._concurrency)

    def _placements_of(
        self,
        path: Path,
        identity: tuple[int, ...] | None,
        request: wire.LoadModelRequest,
        weights: Mapping[str, Ashmem] | None,
    ) -> wire.ModelInfo:
        """Return where the operations of a file are, which is loaded for a moment as it was loaded before.

        Raises HalError, also if the file is another one by now.
        """
        if identity is None or _identity(path) != identity:
            general_failure(f"the model is unloaded, and {path} has changed: its placements are not known any more")
        again = wire.LoadModelRequest()
        again.CopyFrom(request)
        again.ClearField("weights")
        again.name, again.defers_placements = self._session_name(path.stem), False
        answer = self._asked(
            path, again, _descriptors(weights), lambda: self._calls.call(self._stub.LoadModel, again).model
        )
        self._calls.release(self._stub.UnloadModel, wire.UnloadModelRequest(name=again.name))
        return answer

    def _session_name(self, stem: str) -> str:
        self._loaded += 1
        return f"{stem}-{self._loaded}"


def _require_path(path: object) -> str | os.PathLike[str]:
    """Return the path of a model file. Raises TypeError or ValueError if it is none, but its content perhaps."""
    if isinstance(path, (bytes, bytearray, memoryview)):
        raise TypeError(f"got {len(path)} bytes, expected the path of a model file: a file of them can be loaded")
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"got an object of {type(path).__name__}, expected the path of a model file")
    if "\0" in str(path):
        raise ValueError(f"got a path with a NUL among {len(str(path))} characters, expected the path of a model file")
    return path


def _identity(path: Path) -> tuple[int, ...] | None:
    """Return what tells a file from another one, and from what it was before; None if it is gone."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def _descriptors(weights: Mapping[str, Ashmem] | None) -> dict[str, Descriptor]:
    return {location: memory.descriptor for location, memory in (weights or {}).items()}


def _external_data(path: str | os.PathLike[str], given: Container[str]) -> dict[str, Descriptor]:
    """The files beside a model in which it has values, by its names for them, without those that were given."""
    with opened_external_data(path) as files:
        return {name: Descriptor(os.dup(file.fileno())) for name, file in files.items() if name not in given}


def connect(directory: str | os.PathLike[str]) -> Framework:
    """A session with the framework process at a directory. Raises DeadObjectError if no framework serves there."""
    return Framework(directory)
