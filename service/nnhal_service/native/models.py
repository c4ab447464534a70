"""LoadModel, OpenModel and what else is about whole models: a client's own, and those of the server's repository."""

from __future__ import annotations

import os
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Protocol

import grpc

from nnhal.descriptor import Descriptor
from nnhal.errors import invalid_argument
from nnhal.memory import CopyBudget, Region
from nnhal.memory.ashmem import is_read_only
from nnhal.v1 import framework_pb2 as wire
from nnhal_frontends import ImportLimits, StatePair
from nnhal_frontends.content import ModelContent
from nnhal_hosting.rpc import answers
from nnhal_service.native.convert import (
    cache_token_from_wire,
    devices_from_wire,
    dimensions_from_wire,
    format_from_wire,
    model_to_wire,
    options_from_wire,
    pins_from_wire,
    states_from_wire,
)
from nnhal_service.native.explanation import explanation_to_wire
from nnhal_service.native.hal_model import content_of, hal_model_from_wire, import_hal_model
from nnhal_service.native.refusals import refused_as_hal
from nnhal_service.native.session import NativeSession, NativeSessions
from nnhal_service.repository import Lease
from nnhal_service.runtime import CacheDirectory, Fleet, LoadedModel, load_model, prepare
from nnhal_service.runtime.devices.notes import Note, note_replanned
from nnhal_service.serving import ClientModelRuns, ServedModel

_MAX_MODEL_BYTES = 2**31 - 1
"""What one protobuf message or flatbuffer can hold, and so one model file."""
_LOAD_FACTOR = 3
"""Copies of a model file in memory while it is loaded: its bytes, its message, and its constants in a pool."""


class ServedModels(Protocol):
    """The repository, as native clients see it."""

    def model(self, name: str, version: str = "") -> Lease[ServedModel]:
        """Hold a version of a model, by default the newest that is ready. Raises ServingError."""


class ModelServicer:
    """The part of FrameworkService (framework.proto) that loads, opens and describes models."""

    _fleet: Fleet
    _sessions: NativeSessions
    _models: ServedModels | None
    _cache_directory: str
    _import_limits: ImportLimits
    _runs: ClientModelRuns | None
    _note: Note
    _copies: CopyBudget

    @answers
    def LoadModel(self, request: wire.LoadModelRequest, context: grpc.ServicerContext) -> wire.LoadModelResponse:
        session = self._sessions.of(context)
        session.intake.require_open()
        _require_name(request.name)
        if request.HasField("model"):
            model = self._load_hal_model(session, request)
        else:
            file = session.descriptors.get(request.descriptor_id)
            with self._copies.charged(_LOAD_FACTOR * _size(file), "loading the model file"):
                model = self._load_file(_content(file), request)
        self._watch(model, request.name, session)
        return wire.LoadModelResponse(model=_add(session, request.name, model))

    @answers
    def OpenModel(self, request: wire.OpenModelRequest, context: grpc.ServicerContext) -> wire.OpenModelResponse:
        session = self._sessions.of(context)
        session.intake.require_open()
        _require_name(request.name)
        if self._models is None:
            invalid_argument(f"model {request.model!r} is asked for, and this framework has no model repository")
        with refused_as_hal(), self._models.model(request.model, request.version) as lease:
            model, version = self._opened(lease.model, request, session), lease.version
        return wire.OpenModelResponse(model=_add(session, request.name, model), version=version)

    @answers
    def GetModel(self, request: wire.GetModelRequest, context: grpc.ServicerContext) -> wire.GetModelResponse:
        model = self._sessions.of(context).model(request.name)
        return wire.GetModelResponse(model=model_to_wire(request.name, model.prepared))

    @answers
    def ExplainModel(
        self, request: wire.ExplainModelRequest, context: grpc.ServicerContext
    ) -> wire.ExplainModelResponse:
        model = self._sessions.of(context).model(request.name)
        return wire.ExplainModelResponse(explanation=explanation_to_wire(model.prepared))

    @answers
    def UnloadModel(self, request: wire.UnloadModelRequest, context: grpc.ServicerContext) -> wire.UnloadModelResponse:
        self._sessions.of(context).remove_model(request.name).close()
        return wire.UnloadModelResponse()

    def _opened(self, served: ServedModel, request: wire.OpenModelRequest, session: NativeSession) -> LoadedModel:
        """A share of a served model; a model of the session's own by another plan, if the request asks for one."""
        if not request.pins and not request.devices:
            return served.open(session.client)
        pins, devices = pins_from_wire(request.pins), devices_from_wire(request.devices)
        planner = served.loaded.original.planner.choose(pins, devices)
        model = LoadedModel(planner.prepare())
        self._watch(model, request.name, session)
        return model

    def _watch(self, model: LoadedModel, name: str, session: NativeSession) -> None:
        """Count the runs of a model that is its session's own, and note when it is planned again."""
        if self._runs is not None:
            model.watch(self._runs.of(name, session.client))
        model.on_replanned(partial(note_replanned, self._note, name))

    def _load_file(self, content: ModelContent, request: wire.LoadModelRequest) -> LoadedModel:
        cache = self._cache(cache_token_from_wire(request))
        options, model_format = options_from_wire(request), format_from_wire(request.format)
        with refused_as_hal():
            return load_model(
                content,
                self._fleet,
                devices_from_wire(request.devices),
                options,
                model_format,
                cache,
                self._import_limits,
                dimensions_from_wire(request.input_dimensions),
                _states_of(request),
                signature=request.signature or None,
            )

    def _load_hal_model(self, session: NativeSession, request: wire.LoadModelRequest) -> LoadedModel:
        if request.descriptor_id:
            invalid_argument("got a model and a file, expected one of them")
        if request.signature:
            invalid_argument(f"got signature '{request.signature[:80]}' for a model of the HAL, which has none")
        if request.states:
            invalid_argument("got states for a model of the HAL, which has inputs and outputs only")
        if request.input_dimensions:
            invalid_argument("got dimensions of inputs for a model of the HAL, which gives its own")
        given = hal_model_from_wire(request.model, session.descriptors.get, self._copies)
        cache = self._cache(cache_token_from_wire(request))
        cache = cache and cache.of_content(content_of(request.model, given))
        options, devices = options_from_wire(request), devices_from_wire(request.devices)
        with refused_as_hal():
            return LoadedModel(prepare(import_hal_model(given), self._fleet, devices, options, cache))

    def _cache(self, token: bytes) -> CacheDirectory | None:
        """Return the place of compilations under a token; clients share the directory, and tokens."""
        return CacheDirectory(Path(self._cache_directory), token) if self._cache_directory and token else None


def _states_of(request: wire.LoadModelRequest) -> tuple[StatePair, ...]:
    """The inputs and outputs that are state, in the dimensions that the request gives."""
    given = dimensions_from_wire(request.input_dimensions)
    return tuple(replace(pair, dimensions=given.get(pair.input, ())) for pair in states_from_wire(request.states))


def _require_name(name: str) -> None:
    if not name:
        invalid_argument("a model needs a name")


def _add(session: NativeSession, name: str, model: LoadedModel) -> wire.ModelInfo:
    """Give a model to its session and describe it; the model is closed if the session cannot take it."""
    with ExitStack() as undo:
        undo.callback(model.close)
        described = model_to_wire(name, model.prepared)
        session.add_model(name, model)
        undo.pop_all()
    return described


def _size(descriptor: Descriptor) -> int:
    """The bytes of a model file that a client has handed over. Raises INVALID_ARGUMENT."""
    try:
        size = os.fstat(descriptor.fileno()).st_size
    except OSError as error:
        invalid_argument(f"the model file cannot be read: {error.strerror}")
    if not 0 < size <= _MAX_MODEL_BYTES:
        invalid_argument(f"a model file of {size} bytes, expected 1 to {_MAX_MODEL_BYTES}")
    return size


def _content(descriptor: Descriptor) -> ModelContent:
    """A model file's content: in place if it can no longer change, otherwise as it is now. Raises INVALID_ARGUMENT."""
    size = _size(descriptor)
    try:
        if is_read_only(descriptor):
            return Region(descriptor, size, writable=False)
        return os.pread(descriptor.fileno(), size, 0)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it has another size by now"
        invalid_argument(f"the model file cannot be read: {reason}")
