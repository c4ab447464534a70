"""Running and waiting executions of a device: operators see it, cancel it, and let the device drain."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from nnhal.clock import now_ns
from nnhal.errors import HalError
from nnhal.fence import FenceError, create_fence
from nnhal.link.channel import channel_from
from nnhal.remote import RemoteDevice, RemotePreparedModel
from nnhal.remote.admin import DeviceAdmin
from nnhal.remote.execution import burst_run
from nnhal.types import NO_DEADLINE, ErrorStatus, Priority
from nnhal.v1 import admin_pb2 as wire
from nnhal.v1 import burst_pb2, types_pb2
from tests.support.additions import Addition, addition_in_ashmem, addition_model
from tests.support.held_device import HeldDevice, held_device
from tests.support.refusals import FAILURE, INVALID, refusal
from tests.support.waiting import SECONDS, wait_until

HOUR = 3600 * 10**9
UNAVAILABLE = ErrorStatus.DEVICE_UNAVAILABLE
Phase = wire.ExecutionState.Phase


@pytest.fixture(scope="module")
def held() -> Iterator[HeldDevice]:
    with tempfile.TemporaryDirectory(prefix="nnhal-") as directory, held_device(Path(directory)) as device:
        yield device


@pytest.fixture(scope="module")
def operator(held: HeldDevice) -> Iterator[DeviceAdmin]:
    with DeviceAdmin(held.endpoint, held.admin_key) as admin:
        yield admin


@pytest.fixture
def session(held: HeldDevice) -> Iterator[RemoteDevice]:
    with RemoteDevice(held.endpoint, "photo app") as remote:
        yield remote


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(8) as pool:
        yield pool


def prepared_addition(session: RemoteDevice, operations: int = 1) -> RemotePreparedModel:
    """Prepare additions at high priority."""
    return session.prepare_model(addition_model(operations=operations), priority=Priority.HIGH)


def own_session(session: RemoteDevice, operator: DeviceAdmin) -> str:
    """Return the public id of the session of this process's only client by that name."""
    (found,) = (each.id for each in operator.process().sessions if each.client_name == "photo app")
    return found


def phases(operator: DeviceAdmin) -> list[Phase.ValueType]:
    """Return the phase of each execution, in the order in which they are listed."""
    return [execution.phase for execution in operator.process().executions]


def sum_of(addition: Addition) -> float:
    return float(addition.total()[0])


class Held:
    """An execution that is held on the only worker, with a client of its own."""

    def __init__(self, held: HeldDevice, threads: ThreadPoolExecutor, client: RemoteDevice) -> None:
        self.addition = addition_in_ashmem()
        self.addition.fill(1, 2)
        self.execution = prepared_addition(client, 2).create_reusable_execution(self.addition.request)
        self.outcome: Future[object] = threads.submit(self.execution.execute)
        self._running = held.next()

    def let_go(self) -> None:
        self._running.let_go()

    def finish(self) -> None:
        self.let_go()
        self.outcome.result(SECONDS)
        np.testing.assert_array_equal(self.addition.total(), np.float32(5))


@pytest.fixture
def running(held: HeldDevice, session: RemoteDevice, threads: ThreadPoolExecutor) -> Iterator[Held]:
    """An execution that runs until the test lets it go."""
    found = Held(held, threads, session)
    yield found
    found.let_go()
    wait_until(found.outcome.done, "the held execution has ended")


def test_what_runs_and_what_waits_is_listed_with_its_session_its_model_and_its_limits(
    held: HeldDevice, operator: DeviceAdmin, session: RemoteDevice, running: Held, threads: ThreadPoolExecutor
) -> None:
    before, deadline = now_ns(), now_ns() + HOUR
    prepared = prepared_addition(session)
    waiting = threads.submit(prepared.execute, addition_in_ashmem().request, deadline_ns=deadline)
    wait_until(lambda: len(phases(operator)) == 2, "both are listed")
    runs, waits = operator.process().executions
    assert (runs.phase, waits.phase) == (Phase.PHASE_RUNNING, Phase.PHASE_WAITING)
    assert runs.session == waits.session == own_session(session, operator)
    assert runs.what.endswith(": 2 operations: 2 ADD")
    assert waits.what == f"prepared model {prepared.handle}: 1 operation: ADD"
    assert (runs.deadline_ns, waits.deadline_ns) == (NO_DEADLINE, deadline)
    assert waits.priority == types_pb2.PRIORITY_HIGH
    assert runs.since_ns < before < waits.since_ns < now_ns()
    assert "photo app" in waits.client
    assert waits.can_be_cancelled
    figures = operator.device()
    assert (figures.workers, figures.running, figures.waiting) == (1, 1, 1)
    running.finish()
    held.next().let_go()
    waiting.result(SECONDS)
    wait_until(lambda: not phases(operator), "nothing runs any more")
    after = operator.device()
    assert after.executions_ended == figures.executions_ended + 2
    assert after.busy_ns > figures.busy_ns


def test_a_client_sees_and_cancels_its_own_executions_only(
    held: HeldDevice, operator: DeviceAdmin, running: Held
) -> None:
    (execution,) = operator.process().executions
    with DeviceAdmin(held.endpoint) as stranger:
        assert list(stranger.process().executions) == []
        refusal(lambda: stranger.cancel_execution(execution.id), INVALID, f"no execution '{execution.id}' runs or")
    refusal(lambda: operator.cancel_execution("e0"), INVALID, "no execution 'e0' runs or waits")
    running.finish()


def by_burst(prepared: RemotePreparedModel, addition: Addition) -> Callable[[], object]:
    return lambda: prepared.configure_execution_burst().execute(addition.request, [-1])


def by_run_channel(prepared: RemotePreparedModel, addition: Addition) -> Callable[[], object]:
    """Run on a run channel; raise what it answers."""
    execution = prepared.create_reusable_execution(addition.request)
    channel = channel_from(execution.open_run_channel())

    def run() -> None:
        channel.send(burst_run(execution.handle, NO_DEADLINE))
        answer = burst_pb2.BurstAnswer.FromString(channel.receive())
        if answer.status:
            raise HalError(ErrorStatus(answer.status), answer.message)

    return run


def by_call(prepared: RemotePreparedModel, addition: Addition) -> Callable[[], object]:
    return lambda: prepared.execute(addition.request)


@pytest.mark.parametrize("way", [by_burst, by_run_channel, by_call])
def test_an_execution_that_waits_is_withdrawn_and_the_device_goes_on(
    held: HeldDevice,
    operator: DeviceAdmin,
    session: RemoteDevice,
    running: Held,
    threads: ThreadPoolExecutor,
    way: Callable[[RemotePreparedModel, Addition], Callable[[], object]],
) -> None:
    addition = addition_in_ashmem()
    run = way(prepared_addition(session), addition)
    waiting = threads.submit(run)
    wait_until(lambda: len(phases(operator)) == 2, "it waits")
    (wanted,) = (each.id for each in operator.process().executions if each.phase == Phase.PHASE_WAITING)
    assert operator.cancel_execution(wanted) is True
    refusal(lambda: waiting.result(SECONDS), FAILURE, "cancelled by an operator")
    assert phases(operator) == [Phase.PHASE_RUNNING]
    running.finish()
    addition.fill(3, 4)
    again = threads.submit(run)
    held.next().let_go()
    again.result(SECONDS)
    assert sum_of(addition) == 7


def test_an_execution_that_runs_ends_when_its_driver_looks_and_can_run_again(
    held: HeldDevice, operator: DeviceAdmin, running: Held, threads: ThreadPoolExecutor
) -> None:
    (execution,) = operator.process().executions
    assert operator.cancel_execution(execution.id) is False
    running.let_go()
    refusal(lambda: running.outcome.result(SECONDS), FAILURE, "cancelled by an operator")
    refusal(lambda: operator.cancel_execution(execution.id), INVALID, "no execution")
    again = threads.submit(running.execution.execute)
    held.next().let_go()
    again.result(SECONDS)
    assert sum_of(running.addition) == 5


def test_a_launch_that_waits_for_fences_is_listed_with_them_and_cancelled_alone(
    held: HeldDevice, operator: DeviceAdmin, session: RemoteDevice
) -> None:
    signal, fence = create_fence()
    prepared, addition = prepared_addition(session), addition_in_ashmem()
    addition.fill(1, 2)
    doomed, spared = (
        prepared.execute_fenced(each.request, [fence], deadline_ns=now_ns() + HOUR)
        for each in (addition_in_ashmem(), addition)
    )
    seen = operator.process()
    assert [execution.phase for execution in seen.executions] == [Phase.PHASE_FENCED] * 2
    assert {execution.what for execution in seen.executions} == {f"prepared model {prepared.handle}: 1 operation: ADD"}
    launches = [execution.id for execution in seen.executions]
    names = [f"launch {each.removeprefix('l')} of prepared model {prepared.handle}" for each in launches]
    assert [state.owed_by for state in seen.fences if state.is_owed] == names
    assert [state.awaited_by for state in seen.fences if not state.is_owed] == names
    assert operator.cancel_execution(launches[0]) is True
    assert doomed.fence is not None
    assert spared.fence is not None
    with pytest.raises(FenceError, match="error"):
        doomed.fence.wait(SECONDS)
    assert (doomed.info().status, doomed.info().message) == (FAILURE, "cancelled by an operator")
    assert [execution.id for execution in operator.process().executions] == launches[1:]
    signal.send()
    execution = held.next()
    (runs,) = operator.process().executions
    assert (runs.id, runs.phase) == (launches[1], Phase.PHASE_RUNNING)
    execution.let_go()
    spared.fence.wait(SECONDS)
    assert sum_of(addition) == 3
    assert list(operator.process().fences) == []


def test_a_draining_device_finishes_what_it_has_and_refuses_all_else(
    held: HeldDevice, operator: DeviceAdmin, session: RemoteDevice, running: Held, threads: ThreadPoolExecutor
) -> None:
    signal, fence = create_fence()
    prepared = prepared_addition(session)
    launched = prepared.execute_fenced(addition_in_ashmem().request, [fence])
    direct = by_run_channel(prepared, addition_in_ashmem())
    queued = threads.submit(prepared.execute, addition_in_ashmem().request)
    wait_until(lambda: len(phases(operator)) == 3, "all are listed")
    assert operator.drain() == 3
    try:
        assert operator.process().draining
        for work in (
            direct,
            by_burst(prepared, addition_in_ashmem()),
            by_call(prepared, addition_in_ashmem()),
            lambda: prepared.execute_fenced(addition_in_ashmem().request),
            lambda: prepared_addition(session),
        ):
            refusal(work, UNAVAILABLE, "the device is draining: it takes no new work")
        running.finish()
        held.next().let_go()
        queued.result(SECONDS)
        signal.send()
        held.next().let_go()
        assert launched.fence is not None
        launched.fence.wait(SECONDS)
        wait_until(lambda: operator.drain() == 0, "the device is idle")
    finally:
        operator.drain(False)
    assert not operator.process().draining
    again = threads.submit(direct)
    held.next().let_go()
    again.result(SECONDS)
