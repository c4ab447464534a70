"""GetFramework: the states of devices and models, and what was done since the start."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import suppress

import grpc

from nnhal.codec.reports import copied_to_wire
from nnhal.v1 import framework_admin_pb2 as wire
from nnhal_hosting.admin.changes import completed_change
from nnhal_hosting.admin.guard import OperatorGuard
from nnhal_hosting.interpreter_sharing import with_pauses
from nnhal_hosting.rpc import answers
from nnhal_service.native.session import NativeSession, NativeSessions, SessionBinding
from nnhal_service.operating.direct_runs import DirectRunCounter
from nnhal_service.operating.events import FrameworkEvents
from nnhal_service.operating.model_server import OperatedModelServer
from nnhal_service.operating.targets import ModelsInUse
from nnhal_service.repository import ModelIndex
from nnhal_service.repository.entry import ModelState
from nnhal_service.runtime import Fleet, LoadedModel, PreparedPlan
from nnhal_service.serving import ServedModel, ServingError
from nnhal_service.serving.history.statistics import RequestCounts
from nnhal_service.serving.models.monitor import ServingMonitor


class OperatedOverview:
    """The part of FrameworkAdminService (framework_admin.proto) that describes the framework."""

    _guard: OperatorGuard
    _fleet: Fleet
    _sessions: NativeSessions
    _monitor: ServingMonitor
    _events: FrameworkEvents
    _models_in_use: ModelsInUse
    _direct_runs: DirectRunCounter
    _model_server: OperatedModelServer | None

    @answers
    def GetFramework(
        self, request: wire.GetFrameworkRequest, context: grpc.ServicerContext
    ) -> wire.GetFrameworkResponse:
        self._guard.require_operator(context, "see how the framework fares")
        self._direct_runs.count()
        for model in with_pauses(self._models_in_use.all(), 8):
            model.look()  # a model that nobody runs returns to its own plan all the same
        model_server = self._model_server
        response = wire.GetFrameworkResponse(
            devices=self._devices(),
            models=() if model_server is None else _states(model_server),
            session_models=self._session_models(),
            counts=counts_to_wire(self._monitor.counts()),
            addresses={} if model_server is None else model_server.addresses,
            ready=model_server is not None and model_server.ready,
            may_load=model_server is not None and model_server.may_load,
            repositories=[] if model_server is None else model_server.folders,
            refused=[
                wire.RefusedClientCalls(reason=reason, client=client, count=count, last_ns=last_ns)
                for (reason, client), (count, last_ns) in sorted(self._monitor.refused.counts.items())
            ],
            at_ns=time.clock_gettime_ns(time.CLOCK_BOOTTIME),
        )
        ages = (model.oldest_request_ns for model in self._monitor.models.all())
        runs = (age for owner in self._sessions.all() for age in _run_ages(owner).values())
        response.oldest_request_ns = max((*ages, *runs), default=0)
        response.events.extend(self._events.after(request.events_after))
        return response

    @answers
    def NoteOperatorChange(
        self, request: wire.NoteOperatorChangeRequest, context: grpc.ServicerContext
    ) -> wire.NoteOperatorChangeResponse:
        self._guard.require_operator(context, "note a change")
        self._events.keep(completed_change(request.change, self._guard.caller(context).session))
        return wire.NoteOperatorChangeResponse()

    def _devices(self) -> Iterator[wire.DeviceStanding]:
        models: dict[str, list[str]] = defaultdict(list)
        for name, model in with_pauses(self._models_in_use.by_name().items(), 16):
            for device in model.devices:
                models[device].append(name)
        for state in self._fleet.states():
            reason = state.trouble
            if not reason and state.is_withdrawn:
                reason = "it drains: models are planned without it"
            yield wire.DeviceStanding(
                name=state.name,
                available=not state.trouble,
                reason=reason,
                draining=state.is_withdrawn,
                directory=str(state.endpoint.directory),
                is_added=state.is_added,
                models=models[state.name],
                awaited_ns=round(state.wait.waited * 1e9),
                silent_ns=round(state.wait.silent * 1e9),
            )

    def _session_models(self) -> Iterator[wire.SessionModelState]:
        for owner in self._sessions.all():
            ages = _run_ages(owner)
            for name, model in owner.models.items():
                if not model.is_share:
                    yield wire.SessionModelState(
                        session=owner.session.id,
                        name=name,
                        devices=_devices_of(model.prepared),
                        bindings=model.bindings,
                        arena_bytes=model.arena_bytes,
                        oldest_run_ns=ages.get(model, 0),
                    )


def counts_to_wire(counts: RequestCounts) -> wire.ModelCounts:
    return wire.ModelCounts(
        requests=counts.successes,
        failures=counts.failed,
        duration_ns=counts.success_ns,
        durations=counts.durations,
        copied_bytes=counts.copied.total,
        fell_back=counts.fell_back,
        queue_ns=counts.queue_ns,
        copied=copied_to_wire(counts.copied),
        runs=counts.executions,
        run_ns=counts.run_ns,
        since_ns=counts.since_ns,
    )


def _states(model_server: OperatedModelServer) -> Iterator[wire.ServedModelState]:
    return (_state_of(model_server, row) for row in with_pauses(model_server.repository.index(), 16))


def _state_of(model_server: OperatedModelServer, row: ModelIndex) -> wire.ServedModelState:
    """A version of a model; what only a version that serves has is left out if it does not serve by now."""
    state = wire.ServedModelState(name=row.name, version=row.version, state=row.state.value, reason=row.reason)
    served = _served(model_server, row)
    if served is not None:
        loaded = served.loaded
        state.devices.extend(_devices_of(loaded.prepared))
        state.missing.extend(sorted(loaded.missing))
        state.counts.CopyFrom(counts_to_wire(served.counts))
        state.queued = served.queued
        state.goal_ns = served.config.goal_ns
        state.arena_bytes = served.arena_bytes
        state.substitute_bytes = served.substitute_bytes
        state.oldest_request_ns = served.oldest_request_ns
        state.modelled_ns = loaded.prepared.modelled_ns or 0.0
        state.has_open_dimensions = any(not value.size for value in loaded.prepared.values.values())
    return state


def _served(model_server: OperatedModelServer, row: ModelIndex) -> ServedModel | None:
    if row.state is not ModelState.READY:
        return None
    with suppress(ServingError), model_server.repository.model(row.name, row.version) as lease:
        return lease.model
    return None


def _run_ages(owner: NativeSession) -> Mapping[LoadedModel, int]:
    """Return how long the oldest run of each model of a client has lasted until now, in nanoseconds."""
    ages: dict[LoadedModel, int] = {}
    now = time.monotonic_ns()
    for binding in owner.by_handle(SessionBinding).values():
        running = binding.context.running
        if running is not None:
            ages[binding.model] = max(ages.get(binding.model, 0), now - running.since_ns)
    return ages


def _devices_of(plan: PreparedPlan) -> list[str]:
    """The devices of a plan, in the order of their first steps."""
    return list(dict.fromkeys(step.device for step in plan.plan.steps))
