"""LoadModel, OpenModel and what else is about whole models: a client's own, and those of the server's repository."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from typing import Protocol

import grpc

from nnhal.codec import nanoseconds
from nnhal.errors import invalid_argument
from nnhal.v1 import framework_pb2 as wire
from nnhal_hosting.rpc import answers
from nnhal_service.native.convert import devices_from_wire, model_to_wire, pins_from_wire
from nnhal_service.native.explanation import explanation_to_wire
from nnhal_service.native.kept_plans import KeptPlans, group_to_load
from nnhal_service.native.refusals import refused_as_hal
from nnhal_service.native.requested_models import RequestedModels
from nnhal_service.native.session import NativeSession, NativeSessions
from nnhal_service.repository import Lease
from nnhal_service.runtime import DeferredPlanner, LoadedModel
from nnhal_service.runtime.devices.notes import Note, note_replanned
from nnhal_service.serving import ClientModelRuns, ServedModel


class ServedModels(Protocol):
    """The repository, as native clients see it."""

    def model(self, name: str, version: str = "") -> Lease[ServedModel]:
        """Hold a version of a model, by default the newest that is ready. Raises ServingError."""


class ModelServicer:
    """The part of FrameworkService (framework.proto) that loads, opens and describes models."""

    _sessions: NativeSessions
    _models: ServedModels | None
    _requested: RequestedModels
    _plans: KeptPlans
    _runs: ClientModelRuns | None
    _note: Note

    @answers
    def LoadModel(self, request: wire.LoadModelRequest, context: grpc.ServicerContext) -> wire.LoadModelResponse:
        session = self._sessions.of(context)
        session.intake.require_open()
        _require_name(request.name)
        if request.plan:
            group = group_to_load(self._plans.use(session, request.plan), request)
            with refused_as_hal():
                model = group.model.load(nanoseconds(request, "deadline_ns"))
        else:
            with self._requested.given(session, request) as given, refused_as_hal():
                model = given.load(request.defers_placements)
        return wire.LoadModelResponse(model=self.added(session, request.name, model))

    def added(self, session: NativeSession, name: str, model: LoadedModel) -> wire.ModelInfo:
        """Give a model that is the session's own to it, and describe it, without placements that are not known yet."""
        self._watch(model, name, session)
        return _add(session, name, model, defers_placements=isinstance(model.prepared.planner, DeferredPlanner))

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
        if request.given_inputs:
            with refused_as_hal():
                plan = model.with_given(request.given_inputs).prepared
            deferred = isinstance(plan.planner, DeferredPlanner)
            return wire.GetModelResponse(model=model_to_wire(request.name, plan, deferred))
        return wire.GetModelResponse(model=model_to_wire(request.name, model.prepared.in_operations()))

    @answers
    def ExplainModel(
        self, request: wire.ExplainModelRequest, context: grpc.ServicerContext
    ) -> wire.ExplainModelResponse:
        model = self._sessions.of(context).model(request.name)
        return wire.ExplainModelResponse(explanation=explanation_to_wire(model.prepared.in_operations()))

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


def _require_name(name: str) -> None:
    if not name:
        invalid_argument("a model needs a name")


def _add(session: NativeSession, name: str, model: LoadedModel, defers_placements: bool = False) -> wire.ModelInfo:
    """Give a model to its session and describe it; the model is closed if the session cannot take it."""
    with ExitStack() as undo:
        undo.callback(model.close)
        plan = model.prepared if defers_placements else model.prepared.in_operations()
        described = model_to_wire(name, plan, defers_placements)
        session.add_model(name, model)
        undo.pop_all()
    return described
