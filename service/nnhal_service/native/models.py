"""LoadModel, OpenModel and what else is about whole models: a client's own, and those of the server's repository."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path
from typing import Protocol

import grpc

from nnhal.descriptor import Descriptor
from nnhal.errors import HalError, invalid_argument
from nnhal.types import ErrorStatus
from nnhal.v1 import framework_pb2 as wire
from nnhal_frontends.errors import FrontendError
from nnhal_hosting.rpc import answers
from nnhal_service.native.convert import (
    cache_token_from_wire,
    format_from_wire,
    gone_is_unavailable,
    model_to_wire,
    options_from_wire,
)
from nnhal_service.native.explanation import explanation_to_wire
from nnhal_service.native.hal_model import content_of, hal_model_from_wire, import_hal_model
from nnhal_service.native.session import NativeSession, NativeSessions
from nnhal_service.partition import PlacementError
from nnhal_service.repository import Lease
from nnhal_service.runtime import CacheDirectory, Fleet, LoadedModel, load_model, prepare
from nnhal_service.runtime.run.reports import RunWatcher
from nnhal_service.serving import ErrorKind, ServedModel, ServingError

_MAX_MODEL_BYTES = 2**31 - 1
"""What one protobuf message or flatbuffer can hold, and so one model file."""
_STATUSES = {
    ErrorKind.NOT_FOUND: ErrorStatus.INVALID_ARGUMENT,
    ErrorKind.INVALID_ARGUMENT: ErrorStatus.INVALID_ARGUMENT,
    ErrorKind.UNAVAILABLE: ErrorStatus.DEVICE_UNAVAILABLE,
}


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
    _watcher: RunWatcher | None

    @answers
    def LoadModel(self, request: wire.LoadModelRequest, context: grpc.ServicerContext) -> wire.LoadModelResponse:
        session = self._sessions.of(context)
        _require_name(request.name)
        if request.HasField("model"):
            model = self._load_hal_model(session, request)
        else:
            model = self._load_file(_read(session.descriptors.get(request.descriptor_id)), request)
        if self._watcher is not None:
            model.watch(self._watcher)
        return wire.LoadModelResponse(model=_add(session, request.name, model))

    @answers
    def OpenModel(self, request: wire.OpenModelRequest, context: grpc.ServicerContext) -> wire.OpenModelResponse:
        session = self._sessions.of(context)
        _require_name(request.name)
        if self._models is None:
            invalid_argument(f"model {request.model!r} is asked for, and this framework has no model repository")
        try:
            with self._models.model(request.model, request.version) as lease:
                model, version = lease.model.open(), lease.version
        except ServingError as error:
            status = _STATUSES.get(error.kind, ErrorStatus.GENERAL_FAILURE)
            raise HalError(status, error.message) from error
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

    def _load_file(self, content: bytes, request: wire.LoadModelRequest) -> LoadedModel:
        cache = self._cache(cache_token_from_wire(request))
        options, model_format = options_from_wire(request), format_from_wire(request.format)
        try:
            with gone_is_unavailable():
                return load_model(content, self._fleet, request.devices, options, model_format, cache)
        except (FrontendError, PlacementError, LookupError) as error:
            raise HalError(ErrorStatus.INVALID_ARGUMENT, str(error)) from error

    def _load_hal_model(self, session: NativeSession, request: wire.LoadModelRequest) -> LoadedModel:
        if request.descriptor_id:
            invalid_argument("got a model and a file, expected one of them")
        given = hal_model_from_wire(request.model, session.descriptors.get)
        cache = self._cache(cache_token_from_wire(request))
        cache = cache and cache.of_content(content_of(request.model, given))
        options = options_from_wire(request)
        try:
            with gone_is_unavailable():
                return LoadedModel(prepare(import_hal_model(given), self._fleet, request.devices, options, cache))
        except (PlacementError, LookupError) as error:
            raise HalError(ErrorStatus.INVALID_ARGUMENT, str(error)) from error

    def _cache(self, token: bytes) -> CacheDirectory | None:
        """Return the place of compilations under a token; clients share the directory, and tokens."""
        return CacheDirectory(Path(self._cache_directory), token) if self._cache_directory and token else None


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


def _read(descriptor: Descriptor) -> bytes:
    """Read a model file that a client has handed over. Raises INVALID_ARGUMENT."""
    try:
        size = os.fstat(descriptor.fileno()).st_size
        if not 0 < size <= _MAX_MODEL_BYTES:
            invalid_argument(f"a model file of {size} bytes, expected 1 to {_MAX_MODEL_BYTES}")
        return os.pread(descriptor.fileno(), size, 0)
    except OSError as error:
        invalid_argument(f"the model file cannot be read: {error.strerror}")
