"""Where calls of a device meet faults: around each servicer and each channel. Only if the process takes faults."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any, TypeVar, cast

import grpc

from nnhal.errors import HalError
from nnhal_devices.faults.driver import FaultyWorkload
from nnhal_devices.faults.fault_set import Point
from nnhal_devices.faults.injection import DeviceFaults
from nnhal_devices.faults.model_facts import ModelFacts
from nnhal_devices.faults.served_call import CURRENT, NO_CALL, ServedCall
from nnhal_devices.host.burst import Burst
from nnhal_devices.host.client_session import ClientSession, ClientSessions, Exchange
from nnhal_devices.host.execution import Execution
from nnhal_devices.host.prepared_model import PreparedModel
from nnhal_hosting.faults import METHODS
from nnhal_hosting.polling import Work
from nnhal_hosting.rpc import abort

S = TypeVar("S")
_CHANNELS = {
    "burst": "Channel.Burst",
    "run channel": "Channel.Run",
    "launches": "Channel.Launch",
    "chain": "Channel.Chain",
    "bell": "Channel.Chain",
}
"""The methods of conditions, by the names of channels."""
_MODEL_FIELDS = ("prepared_model", "execution", "burst")


class FaultPoints:
    """Tells the faults of a device which call is served, and has them act before a call is."""

    def __init__(self, faults: DeviceFaults, clients: ClientSessions) -> None:
        self._faults = faults
        self._clients = clients

    def around(self, service: str, servicer: S) -> S:
        """A servicer whose calls meet faults. ``service`` is its name in conditions."""
        return cast(S, _FaultyServicer(service, servicer, self))

    def launching(self, execution: Execution) -> None:
        """Meet the faults of a launch. Raises HalError."""
        self._faults.inject(Point.LAUNCH, facts_of_object(execution))

    def enter(self, method: str, request: Any, context: grpc.ServicerContext) -> None:
        """Begin a call, which meets its faults. Raises HalError."""
        try:
            client: ClientSession | None = self._clients.of(context)
        except HalError:  # the servicer refuses it
            client = None
        if client is None:
            CURRENT.set(ServedCall(method, is_wanted=context.is_active))
        else:
            CURRENT.set(_served(method, client, context.is_active))
        self._faults.inject(Point.CALL, _facts_of_request(client, request))


class _FaultyServicer:
    """Has the methods of a servicer."""

    def __init__(self, service: str, servicer: object, points: FaultPoints) -> None:
        self._service = service
        self._servicer = servicer
        self._points = points

    def __getattr__(self, name: str) -> Any:
        method, title = getattr(self._servicer, name), f"{self._service}.{name}"
        if title not in METHODS:
            return method
        return self._streaming(method, title) if inspect.isgeneratorfunction(method) else self._unary(method, title)

    def _unary(self, method: Callable[..., Any], title: str) -> Callable[..., Any]:
        def call(request: Any, context: grpc.ServicerContext) -> Any:
            try:
                self._points.enter(title, request, context)
                return method(request, context)
            except HalError as error:
                abort(context, error)
            finally:
                CURRENT.set(NO_CALL)

        return call

    def _streaming(self, method: Callable[..., Any], title: str) -> Callable[..., Any]:
        def call(request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
            try:
                self._points.enter(title, request, context)
                yield from method(request, context)
            finally:
                CURRENT.set(NO_CALL)

        return call


def on_channel(name: str, client: ClientSession, exchange: Exchange) -> Exchange:
    """The exchanges of a channel, and the work that they leave, as calls that faults know."""
    call = _served(_CHANNELS[name], client, lambda: True)

    def exchange_of_call() -> Work | None:
        CURRENT.set(call)
        try:
            work = exchange()
        finally:
            CURRENT.set(NO_CALL)
        return None if work is None else _WorkOfCall(work, call)

    return exchange_of_call


class _WorkOfCall:
    """Work of a channel, which other channels never wait for, as it may meet a delay."""

    is_brief = False

    def __init__(self, work: Work, call: ServedCall) -> None:
        self._work = work
        self._served = call

    def run(self) -> None:
        """Do it."""
        CURRENT.set(self._served)
        try:
            self._work.run()
        finally:
            CURRENT.set(NO_CALL)


def facts_of_object(item: object) -> ModelFacts | None:
    """The model that a prepared model, an execution or a burst belongs to; None if the item is something else."""
    prepared = item.prepared if isinstance(item, Burst | Execution) else item
    workload = prepared.workload if isinstance(prepared, PreparedModel) else None
    return workload.facts if isinstance(workload, FaultyWorkload) else None


def _facts_of_request(client: ClientSession | None, request: Any) -> ModelFacts | None:
    """The model that a request of a call names by a handle, if it does."""
    for field in _MODEL_FIELDS:
        handle = getattr(request, field, None)
        if client is not None and isinstance(handle, int) and handle:
            return facts_of_object(client.find(handle, object))
    return None


def _served(method: str, client: ClientSession, is_active: Callable[[], bool]) -> ServedCall:
    session = client.session
    return ServedCall(method, session.id, session.client_name, lambda: is_active() and not client.is_over)
