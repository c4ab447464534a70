"""Points where calls meet faults, around each servicer and each channel. Only if the process takes faults."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any, TypeVar, cast

import grpc

from nnhal.errors import HalError
from nnhal.fence import Signal
from nnhal.resolved import ResolvedModel
from nnhal.support import Support, Supported, Unsupported
from nnhal.types import Model, OptimizationViews
from nnhal_devices.driver import Driver, PrepareOptions, RestoringDriver, ShrinkableDriver, Workload
from nnhal_devices.faults.fault_set import RAN, ActiveFault, FaultSet, Point, ServedCall, later_of
from nnhal_devices.faults.injection import DeviceFaults, delay, fault_words, log_fault
from nnhal_devices.faults.model_facts import ModelFacts, facts_of, name_of_operation
from nnhal_devices.faults.workload import FaultyWorkload, objection_to
from nnhal_devices.host.runs.burst import Burst
from nnhal_devices.host.runs.execution import Execution
from nnhal_devices.host.runs.hooks import Answer, Exchange, Hooks
from nnhal_devices.host.runs.prepared_model import PreparedModel
from nnhal_devices.host.sessions.wrapped_servicer import Method, intercepted
from nnhal_hosting.faults import AnswerFault, CacheFault, FenceFault, ShrunkSramFault
from nnhal_hosting.polling import Work
from nnhal_hosting.rpc import abort
from nnhal_hosting.sessions import Ownership, Sessions

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


class FaultPoints(Hooks):
    """Tells the faults of a device which call is served, and has them act before a call is."""

    def __init__(self, faults: DeviceFaults, driver: Driver) -> None:
        """``driver`` is the device's. Raises INVALID_ARGUMENT if there are faults that it cannot have."""
        faults.set.suit(lambda fault: objection_to(fault, driver))
        self._faults = faults

    @property
    def injected(self) -> int:
        return self._faults.set.injected

    @property
    def must_be_asked(self) -> bool:
        return not self._faults.set.is_empty

    def around(self, service: str, servicer: S, clients: Sessions[Ownership]) -> S:
        return intercepted(service, servicer, _CallsWithFaults(self._faults, clients))

    def support(self, model: Model, answers: Sequence[Support]) -> Sequence[Support]:
        """Return a driver's answers without the operations that a fault has taken from it."""
        if self._faults.set.is_empty:
            return answers
        facts, found = facts_of(model), list(answers)
        for active in self._faults.set.met(Point.SUPPORT, facts):
            log_fault(active, facts, ", ".join(active.fault.operation))
            for index, operation in enumerate(model.main.operations):
                name = name_of_operation(operation.type)
                if isinstance(found[index], Supported) and any(
                    fnmatchcase(name, one) for one in active.fault.operation
                ):
                    found[index] = Unsupported("NO_IMPL", name, f"others, by {fault_words(active)}")
        return found

    def prepare(self, driver: Driver, model: ResolvedModel, options: PrepareOptions) -> Workload:
        facts = self._preparing(model, options)
        least = self._least_sram(facts)
        if least is None or not isinstance(driver, ShrinkableDriver):
            return FaultyWorkload(driver.prepare(model, options), model, facts, self._faults)
        active, size = least
        try:
            return FaultyWorkload(driver.prepare_within(model, options, size), model, facts, self._faults)
        except HalError as error:
            if error.status != ShrunkSramFault.error_status:
                raise
            raise HalError(error.status, f"{fault_words(active)}: {error.message}") from error

    def restore(self, driver: RestoringDriver, model: ResolvedModel, options: PrepareOptions) -> Workload | None:
        workload = driver.restore(model, options)
        if workload is None:  # it is prepared next
            return None
        lacks_constants = bool(driver.replaced_constants(model))
        return FaultyWorkload(workload, model, self._preparing(model, options), self._faults, lacks_constants)

    def optimize(self, driver: Driver, model: ResolvedModel) -> OptimizationViews:
        least = self._least_sram(facts_of(model.model))
        if least is None or not isinstance(driver, ShrinkableDriver):
            return driver.backend.optimize(model)
        active, size = least
        views = driver.optimize_within(model, size)
        return replace(
            views, failed=tuple(each._replace(reason=f"{each.reason} ({fault_words(active)})") for each in views.failed)
        )

    def _least_sram(self, facts: ModelFacts) -> tuple[ActiveFault, int] | None:
        """The fault that leaves least SRAM, and how much; only a driver that has SRAM of its own has such faults."""
        left: list[tuple[ActiveFault, int]] = []
        for active in self._faults.set.met(Point.COMPILE, facts):
            assert isinstance(active.fault, ShrunkSramFault)
            log_fault(active, facts, f"{active.fault.bytes:,} bytes of SRAM are left")
            left.append((active, active.fault.bytes))
        return min(left, key=lambda each: each[1], default=None)

    def _preparing(self, model: ResolvedModel, options: PrepareOptions) -> ModelFacts:
        facts = facts_of(model.model)
        self._faults.inject(Point.PREPARE, facts)
        options.check()
        return facts

    def launching(self, execution: Execution) -> None:
        self._faults.inject(Point.LAUNCH, facts_of_object(execution))

    def signal(self, execution: Execution, signal: Signal) -> Signal:
        if self._faults.set.is_empty:
            return signal
        return cast(Signal, FaultySignal(signal, facts_of_object(execution), self._faults.set))

    def answer(self, answer: Answer) -> Answer:
        def answer_or_none(message: bytes) -> bytes | None:
            """Answer, unless a fault drops the answer."""
            answered = answer(message)
            for active in later_of(self._faults.set, Point.ANSWER, RAN.get()):
                assert isinstance(active.fault, AnswerFault)
                log_fault(active, RAN.get(), active.fault.outcome)
                if active.fault.outcome == "dropped":
                    return None
                delay(active.fault.ms / 1000)
            return answered

        return answer_or_none

    def exchange(self, name: str, client: Ownership, exchange: Exchange) -> Exchange:
        """Return exchanges that are calls, which faults know, with the work that they leave."""
        call = _served(_CHANNELS[name], client, lambda: True)

        def exchange_of_call() -> Work | None:
            with call.served():
                work = exchange()
            return None if work is None else _WorkOfCall(work, call)

        return exchange_of_call


class _CallsWithFaults:
    """Has calls of gRPC meet faults before they are served."""

    def __init__(self, faults: DeviceFaults, clients: Sessions[Ownership]) -> None:
        self._faults = faults
        self._clients = clients

    def unary(self, method: Method, title: str, request: Any, context: grpc.ServicerContext) -> Any:
        with self._call(title, request, context):
            return method(request, context)

    def stream(self, method: Method, title: str, request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
        with self._call(title, request, context):
            yield from method(request, context)

    @contextmanager
    def _call(self, title: str, request: Any, context: grpc.ServicerContext) -> Iterator[None]:
        client: Ownership | None = None
        with suppress(HalError):  # the servicer refuses it
            client = self._clients.of(context)
        is_active = context.is_active
        call = ServedCall(title, is_wanted=is_active) if client is None else _served(title, client, is_active)
        with call.served():
            try:
                self._meet(client, request)
            except HalError as error:
                abort(context, error)
            yield

    def _meet(self, client: Ownership | None, request: Any) -> None:
        """Meet the faults of a call that begins. Raises HalError."""
        self._faults.inject(Point.CALL, _facts_of_request(client, request))
        if client is None:
            return
        for active in self._faults.set.met(Point.CACHE):
            log_fault(active, None, "its files")
            for file in (*request.model_cache, *request.data_cache):
                self._damage(client.descriptors.get(file.descriptor_id).fileno(), active)

    def _damage(self, file: int, active: ActiveFault) -> None:
        """Flip bits of a file."""
        assert isinstance(active.fault, CacheFault)
        size = os.fstat(file).st_size
        for bit in self._faults.set.drawn_bits(active, 8 * size, active.fault.flips):
            (byte,) = os.pread(file, 1, bit // 8)
            os.pwrite(file, bytes([byte ^ 1 << bit % 8]), bit // 8)


class _WorkOfCall:
    """Work of a channel, which other channels never wait for, as it may meet a delay."""

    is_brief = False

    def __init__(self, work: Work, call: ServedCall) -> None:
        self._work = work
        self._served = call

    def run(self) -> None:
        with self._served.served():
            self._work.run()


def facts_of_object(item: object) -> ModelFacts | None:
    """The model that a prepared model, an execution or a burst belongs to; None if the item is something else."""
    prepared = item.prepared if isinstance(item, Burst | Execution) else item
    workload = prepared.workload if isinstance(prepared, PreparedModel) else None
    return workload.facts if isinstance(workload, FaultyWorkload) else None


def _facts_of_request(client: Ownership | None, request: Any) -> ModelFacts | None:
    """The model that a request of a call names by a handle, if it does."""
    for field in _MODEL_FIELDS:
        handle = getattr(request, field, None)
        if client is not None and isinstance(handle, int) and handle:
            return facts_of_object(client.find(handle, object))
    return None


def _served(method: str, client: Ownership, is_active: Callable[[], bool]) -> ServedCall:
    session = client.session
    return ServedCall(method, session.id, session.client_name, lambda: is_active() and not client.is_over)


class FaultySignal:
    """The signalling end of a fence that does what faults say."""

    def __init__(self, signal: Signal, facts: ModelFacts | None, faults: FaultSet) -> None:
        self._signal = signal
        self._facts = facts
        self._faults = faults

    @property
    def is_cancelled(self) -> bool:
        """Return whether somebody has cancelled the fence."""
        return self._signal.is_cancelled

    def send(self) -> None:
        """Signal, fail in place of that, or keep the signal back until a fault is removed."""
        self._act(self._signal.send)

    def fail(self) -> None:
        """Fail, or keep that back."""
        self._act(self._signal.fail)

    def _act(self, act: Callable[[], None]) -> None:
        for active in later_of(self._faults, Point.FENCE, self._facts):
            assert isinstance(active.fault, FenceFault)
            log_fault(active, self._facts, active.fault.outcome)
            if active.fault.outcome == "never":
                self._faults.hold(active, act)
                return
            act = self._signal.fail
        act()
