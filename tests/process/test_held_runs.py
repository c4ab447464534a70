"""Executions of which a test says when they end: what others do meanwhile, and which one begins next."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nnhal.clock import now_ns
from nnhal.codec import config_to_wire
from nnhal.errors import HalError
from nnhal.extensions.execution import priority_hints
from nnhal.remote import RemoteDevice
from nnhal.types import ErrorStatus, ExecutionConfig, Priority
from nnhal_conformance.channels import Launch
from nnhal_conformance.device import Known, Prepared, Subject
from nnhal_conformance.device_buffers import WHOLE, DeviceBuffer
from nnhal_conformance.forms import prepare_open
from nnhal_conformance.rules.executions import WITH_CONFIG
from nnhal_conformance.session import DeviceSession
from nnhal_conformance.small_models import SmallRequest
from nnhal_conformance.ways import Run, by_config
from tests.support.additions import Addition, addition_in_ashmem, addition_model
from tests.support.calls import WAYS, held_by, session_with
from tests.support.held_device import HeldDevice, held_device
from tests.support.refusals import FAILURE, MISSED, refusal
from tests.support.waiting import SECONDS, wait_until

HINTED = [*WITH_CONFIG, "launch-request"]
"""The ways to execute that take hints."""


@pytest.fixture
def device(short_path: Path) -> Iterator[HeldDevice]:
    with held_device(short_path) as held:
        yield held


@pytest.fixture
def session(device: HeldDevice) -> Iterator[DeviceSession]:
    with session_with(device.endpoint) as opened:
        yield opened


@pytest.fixture
def subject(device: HeldDevice) -> Iterator[Subject]:
    """The device, as rules are asked of it."""
    with Subject(device.endpoint, SECONDS, Known()) as asked:
        yield asked


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as pool:
        yield pool


def filled(first: float, second: float) -> Addition:
    addition = addition_in_ashmem()
    addition.fill(first, second)
    return addition


@pytest.mark.contract("BU-08", "BU-09", "RE-04")
def test_releasing_memory_and_a_second_execution_do_not_disturb_a_running_one(
    device: HeldDevice, session: DeviceSession, threads: ThreadPoolExecutor
) -> None:
    prepared, addition = held_by(session, addition_model()), filled(1, 2)
    burst, bound = prepared.burst(), prepared.bind(addition.request)
    message = burst.message(addition.request, [0])
    message.burst = burst.handle
    first = threads.submit(session.call, session.burst.ExecuteSynchronouslyWithConfig, message)
    running = device.next()
    for call in (partial(burst.execute, addition.request), partial(burst.run, bound)):
        refusal(call, FAILURE, "one at a time")
    burst.forget(0)
    assert not first.done()
    running.let_go()
    assert first.result(SECONDS).result.output_sufficient_size
    np.testing.assert_array_equal(addition.total(), np.float32(3))
    again = threads.submit(bound.run)
    running = device.next()
    refusal(bound.run, FAILURE, "one at a time")
    running.let_go()
    assert again.result(SECONDS).output_sufficient_size


@pytest.mark.contract("MD-55", "MD-58")
def test_a_buffer_that_is_released_while_an_execution_runs_still_serves_it(
    device: HeldDevice, subject: Subject, threads: ThreadPoolExecutor
) -> None:
    buffer = DeviceBuffer.on(subject)
    buffer.work.fill(1)
    buffer.fill(1)
    run = threads.submit(buffer.held.execute, buffer.reading())
    running = device.next()
    buffer.release()
    assert not run.done()
    running.let_go()
    run.result(SECONDS)
    buffer.work.require_output()


@pytest.mark.contract("MD-62")
def test_a_launch_that_needs_more_memory_does_not_disturb_a_buffer_that_is_being_written(
    device: HeldDevice, subject: Subject
) -> None:
    buffer = DeviceBuffer(prepare_open(subject))
    launched, works = list[Launch](), list[SmallRequest]()
    for rows in (1, 8):
        works.append(SmallRequest(buffer.held.small.of_rows(rows)))
        works[-1].fill(rows)
        argument = works[-1].request.outputs[0].dimensions
        request = buffer.writing(argument=type(WHOLE)(WHOLE.location, argument), work=works[-1])
        fences = [each.fence.descriptor for each in launched if each.fence is not None]
        launched.append(buffer.held.launch(request, fences))
        if rows == 1:
            running = device.next()
    running.let_go()
    launched[0].require_success()
    device.next().let_go()
    launched[1].require_success()
    buffer.require_output_in_it(works[1])


@pytest.mark.parametrize("spin_us", ["0", "100"])
def test_a_long_run_delays_no_other_client(short_path: Path, spin_us: str, threads: ThreadPoolExecutor) -> None:
    with (
        held_device(short_path, "--workers", "2", "--spin-us", spin_us) as device,
        session_with(device.endpoint) as first,
        session_with(device.endpoint) as second,
    ):
        busy, other = (
            WAYS["run-channel"](held_by(each, addition_model()), filled(1, 2).request) for each in (first, second)
        )
        long = threads.submit(busy)
        running = device.next()
        for _ in range(3):
            brief = threads.submit(other)
            device.next().let_go()
            brief.result(SECONDS)
        assert not long.done()
        running.let_go()
        long.result(SECONDS)


class Observer:
    """A client that tries to execute while another one occupies the only worker."""

    def __init__(self, remote: RemoteDevice) -> None:
        self._prepared, self._addition = remote.prepare_model(addition_model()), addition_in_ashmem()

    def error(self) -> HalError:
        """Try with a deadline that is near, and return the error."""
        with pytest.raises(HalError) as missed:
            self._prepared.execute(self._addition.request, deadline_ns=now_ns() + 50_000_000)
        return missed.value

    def waiting(self) -> int:
        """Return how many executions wait for the worker; -1 if this one came too late to be told."""
        found = re.search(r"(\d+) other executions wait", self.error().message)
        return int(found.group(1)) if found else -1


@pytest.fixture
def observer(device: HeldDevice) -> Iterator[Observer]:
    with RemoteDevice(device.endpoint, "observer") as remote:
        yield Observer(remote)


def at_priority(session: DeviceSession, priority: Priority) -> Prepared:
    events, _ = by_config(session, addition_model(), priority=priority)
    return Prepared(session, held_by(session, addition_model()).small, events[-1].notified.prepared_model)


def hinted(priority: Priority | None) -> dict[str, Any]:
    """The fields of a call with its own priority, or with that of the model."""
    if priority is None:
        return {}
    hints = priority_hints(priority)
    config = config_to_wire(
        ExecutionConfig(execution_hints=hints.values, extension_name_to_prefix=hints.extension_names)
    )
    return {"execution_hints": config.execution_hints, "extension_name_to_prefix": config.extension_name_to_prefix}


@pytest.mark.contract("QS-09", "QS-10")
def test_a_deadline_that_is_missed_because_others_run_is_transient(
    device: HeldDevice, session: DeviceSession, observer: Observer, threads: ThreadPoolExecutor
) -> None:
    long = threads.submit(held_by(session, addition_model()).execute, filled(1, 2).request)
    running = device.next()
    errors = [observer.error()]
    while errors[-1].status != ErrorStatus.MISSED_DEADLINE_TRANSIENT:  # until the call arrives in time
        errors.append(observer.error())
    assert {error.status for error in errors} <= set(MISSED)
    running.let_go()
    long.result(SECONDS)


def require_order(
    device: HeldDevice, observer: Observer, occupant: Future[Any], calls: Sequence[Run], threads: ThreadPoolExecutor
) -> None:
    """Check that of two executions that come while a third runs, the second begins first. Their inputs are 1 and 2."""
    running = device.next()
    runs = []
    for number, run in enumerate(calls, 1):
        runs.append(threads.submit(run))
        wait_until(lambda waiting=number: observer.waiting() == waiting, "it waits")  # type: ignore[misc]
    running.let_go()
    for value in (2, 1):
        begun = device.next()
        assert np.frombuffer(begun.value, np.float32)[0] == value
        begun.let_go()
    for done in (occupant, *runs):
        done.result(SECONDS)


def test_a_higher_priority_of_the_same_client_goes_first(
    device: HeldDevice, session: DeviceSession, observer: Observer, threads: ThreadPoolExecutor
) -> None:
    occupant = threads.submit(at_priority(session, Priority.MEDIUM).execute, filled(0, 0).request)
    low, high = at_priority(session, Priority.LOW), at_priority(session, Priority.HIGH)
    calls = [WAYS["request"](each, filled(value, 0).request) for value, each in ((1, low), (2, high))]
    require_order(device, observer, occupant, calls, threads)


@pytest.mark.parametrize(("earlier", "later"), [(None, Priority.HIGH), (Priority.LOW, None)])
@pytest.mark.parametrize("way", HINTED)
def test_an_execution_may_have_another_priority_than_its_model(
    device: HeldDevice,
    session: DeviceSession,
    observer: Observer,
    threads: ThreadPoolExecutor,
    way: str,
    earlier: Priority | None,
    later: Priority | None,
) -> None:
    prepared = held_by(session, addition_model())
    runs = [WAYS[way](prepared, filled(value, 0).request) for value in (1, 2)]
    calls = [partial(run, **hinted(priority)) for run, priority in zip(runs, (earlier, later), strict=True)]
    occupant = threads.submit(prepared.execute, filled(0, 0).request)
    require_order(device, observer, occupant, calls, threads)
