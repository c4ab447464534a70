"""The rows of the contract about deadlines and priorities, over a device's sockets."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nnhal.clock import now_ns
from nnhal.endpoint import Endpoint
from nnhal.errors import HalError
from nnhal.extensions.execution import priority_hints
from nnhal.fence import FenceError
from nnhal.remote import RemoteDevice
from nnhal.types import (
    MAX_LOOP_TIMEOUT_NS,
    NO_DEADLINE,
    NO_HINTS,
    UNAVAILABLE_TIMING,
    ErrorStatus,
    ExecutionConfig,
    OperandType,
    Priority,
)
from nnhal.v1 import burst_pb2, device_pb2, types_pb2
from tests.support.additions import addition_in_ashmem, addition_model
from tests.support.caching import CachingDevice, broadcast_sum, held_under
from tests.support.entry_points import ALL_ENTRY_POINTS, ENTRY_POINTS, PLAIN, EntryPoint, Target, synchronously
from tests.support.gates import PATIENT, Gate, gate_model
from tests.support.waiting import SECONDS, wait_until
from tests.support.wire import NO_TOKEN, WireDevice

NONE = ErrorStatus.NONE
TRANSIENT, PERSISTENT = ErrorStatus.MISSED_DEADLINE_TRANSIENT, ErrorStatus.MISSED_DEADLINE_PERSISTENT
MISSED = (TRANSIENT, PERSISTENT)
LATEST = 2**63 - 1
SHORTLY_NS = 5_000_000
MEASURED = ExecutionConfig(measure_timing=True)
SLOW_ELEMENTS, SLOW_OPERATIONS = 1 << 18, 100
"""The size of an execution that takes longer than 5 ms."""
WITH_CONFIG = [name for name in ALL_ENTRY_POINTS if "config" in name or "reusable" in name]
"""The ways to execute that take hints."""


@pytest.fixture(params=["cpu_ref", "cpu_acc"])
def endpoint(request: pytest.FixtureRequest) -> Endpoint:
    found: Endpoint = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def session(endpoint: Endpoint) -> Iterator[WireDevice]:
    with WireDevice(endpoint) as wire:
        yield wire


@pytest.fixture
def preparing(session: WireDevice) -> CachingDevice:
    return CachingDevice(session)


@pytest.fixture(params=ENTRY_POINTS)
def entry(request: pytest.FixtureRequest) -> EntryPoint:
    return ENTRY_POINTS[request.param]


@pytest.mark.contract("QS-02", "QS-09")
def test_a_preparation_whose_deadline_has_passed_is_launched_and_missed_persistently(preparing: CachingDevice) -> None:
    sample = broadcast_sum(OperandType.TENSOR_FLOAT32)
    for deadline in (0, now_ns() - 1):
        prepared = preparing.prepare(sample.model, deadline_ns=deadline)
        assert (prepared.launched, prepared.status, prepared.prepared_model) == (True, PERSISTENT, 0)


def status_of(target: Target, entry: EntryPoint, elements: int, operations: int, deadline_ns: int) -> ErrorStatus:
    addition = addition_in_ashmem(elements)
    try:
        addition.check(lambda: entry(target, addition.request, MEASURED, deadline_ns), 1, 2, operations)
    except HalError as error:
        return error.status
    return NONE


@pytest.mark.contract("QS-05", "QS-06", "QS-08", "QS-10")
@pytest.mark.parametrize(("elements", "operations"), [(16, 1), (SLOW_ELEMENTS, SLOW_OPERATIONS)])
def test_an_execution_with_little_time_succeeds_or_misses_its_deadline_and_the_model_goes_on(
    session: WireDevice, entry: EntryPoint, elements: int, operations: int
) -> None:
    target = Target(session, session.prepare(addition_model(elements, operations)))
    for ahead_ns in (0, SHORTLY_NS):
        assert status_of(target, entry, elements, operations, now_ns() + ahead_ns) in (NONE, *MISSED)
        assert status_of(target, entry, elements, operations, NO_DEADLINE) == NONE
    assert status_of(target, entry, elements, operations, 0) == PERSISTENT
    assert status_of(target, entry, elements, operations, LATEST) == NONE


@pytest.mark.contract("QS-07")
def test_a_missed_deadline_gives_no_result_on_a_burst_channel(wire: WireDevice) -> None:
    target = Target(wire, wire.prepare(addition_model()))
    message = target.burst_plain(addition_in_ashmem().request, (-1,), MEASURED, 0)
    target.burst.channel.send(burst_pb2.BurstCall(execute=message).SerializeToString())
    answer = burst_pb2.BurstAnswer.FromString(target.burst.channel.receive())
    assert answer.status == types_pb2.ERROR_STATUS_MISSED_DEADLINE_PERSISTENT
    assert not answer.HasField("result")
    assert not answer.HasField("staging")


@pytest.mark.contract("QS-07")
def test_a_missed_deadline_gives_no_timing_of_a_fenced_execution(device: RemoteDevice) -> None:
    prepared, gate = device.prepare_model(gate_model()), Gate()
    config = replace(PATIENT, measure_timing=True)
    launched = prepared.execute_fenced(gate.request, config=config, duration_ns=SHORTLY_NS)
    assert launched.fence is not None
    with pytest.raises(FenceError):
        launched.fence.wait(SECONDS)
    info = launched.info()
    assert info.status in MISSED
    assert (info.timing_launched, info.timing_fenced) == (UNAVAILABLE_TIMING, UNAVAILABLE_TIMING)


class Occupied:
    """A device's only worker, which an execution of one client occupies until ``end``."""

    def __init__(self, target: Target, threads: ThreadPoolExecutor) -> None:
        self._gate = Gate()
        self._threads = threads
        self._busy = threads.submit(synchronously, target, self._gate.request, PATIENT, NO_DEADLINE)

    def end(self) -> None:
        self._gate.open()
        self._busy.result(SECONDS)


class Observer:
    """A client that tries to execute, and learns how many other executions wait."""

    def __init__(self, wire: WireDevice) -> None:
        self.target = Target(wire, wire.prepare(addition_model()))
        self._addition = addition_in_ashmem()

    def error(self) -> HalError | None:
        """Try an execution with a very short deadline; return its error, or None if it succeeds."""
        try:
            synchronously(self.target, self._addition.request, PLAIN, now_ns() + 10 * SHORTLY_NS)
        except HalError as error:
            return error
        return None

    def waiting(self) -> int | None:
        """Return how many executions wait for the worker, or None if it is free or the number is unknown."""
        error = self.error()
        found = re.search(r"(\d+) other executions wait", error.message) if error else None
        return int(found.group(1)) if found else None


@pytest.fixture
def observer(cpu_ref: Endpoint) -> Iterator[Observer]:
    """Open a second session with the shared cpu_ref process."""
    with WireDevice(cpu_ref) as wire:
        yield Observer(wire)


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as pool:
        yield pool


@pytest.mark.contract("QS-09", "QS-10")
def test_a_deadline_that_is_missed_because_others_run_is_transient(
    wire: WireDevice, observer: Observer, threads: ThreadPoolExecutor
) -> None:
    held = Occupied(Target(wire, wire.prepare(gate_model())), threads)
    errors: list[HalError | None] = []

    def transient() -> bool:
        errors.append(observer.error())
        return errors[-1] is not None and errors[-1].status == TRANSIENT

    wait_until(transient, "the worker is busy, and the call arrives in time")
    assert {error.status for error in errors if error} <= set(MISSED)
    held.end()
    assert status_of(observer.target, synchronously, 16, 1, NO_DEADLINE) == NONE


@pytest.mark.contract("QS-09")
def test_a_loop_that_takes_too_long_is_missed_transiently(wire: WireDevice) -> None:
    target, gate = Target(wire, wire.prepare(gate_model())), Gate()
    ahead = SHORTLY_NS
    while True:  # until the call arrives before its deadline
        with pytest.raises(HalError) as caught:
            synchronously(target, gate.request, PATIENT, now_ns() + ahead)
        if caught.value.status == TRANSIENT or ahead > MAX_LOOP_TIMEOUT_NS:
            break
        assert caught.value.status == PERSISTENT
        ahead *= 2
    assert caught.value.status == TRANSIENT
    gate.open()
    synchronously(target, gate.request, PATIENT, NO_DEADLINE)


def prepared_at(wire: WireDevice, priority: Priority) -> Target:
    """Prepare the gate's model at a priority, with a burst."""
    return Target(wire, CachingDevice(wire).prepare(gate_model(), priority=priority).prepared_model)


def test_a_higher_priority_of_the_same_client_goes_first(
    wire: WireDevice, observer: Observer, threads: ThreadPoolExecutor
) -> None:
    held = Occupied(prepared_at(wire, Priority.MEDIUM), threads)
    wait_until(lambda: observer.waiting() == 0, "the worker is busy")
    low, high, gates = prepared_at(wire, Priority.LOW), prepared_at(wire, Priority.HIGH), (Gate(), Gate())
    gates[1].open()
    first = threads.submit(synchronously, low, gates[0].request, PATIENT, NO_DEADLINE)
    wait_until(lambda: observer.waiting() == 1, "the one of low priority waits")
    second = threads.submit(synchronously, high, gates[1].request, PATIENT, NO_DEADLINE)
    wait_until(lambda: observer.waiting() == 2, "the one of high priority waits")
    held.end()
    second.result(SECONDS)  # if the other one ran first, neither would end before its gate opens
    assert not first.done()
    gates[0].open()
    first.result(SECONDS)


def hinted(priority: Priority | None) -> ExecutionConfig:
    """Create an execution of the gate's model with its own priority, or with that of the model."""
    hints = NO_HINTS if priority is None else priority_hints(priority)
    return replace(PATIENT, execution_hints=hints.values, extension_name_to_prefix=hints.extension_names)


@pytest.mark.parametrize(("earlier", "later"), [(None, Priority.HIGH), (Priority.LOW, None)])
@pytest.mark.parametrize("entry", WITH_CONFIG)
def test_an_execution_may_have_another_priority_than_its_model(
    wire: WireDevice,
    observer: Observer,
    threads: ThreadPoolExecutor,
    entry: str,
    earlier: Priority | None,
    later: Priority | None,
) -> None:
    prepared, run, gates = wire.prepare(gate_model()), ALL_ENTRY_POINTS[entry], (Gate(), Gate())
    held = Occupied(Target(wire, prepared), threads)
    wait_until(lambda: observer.waiting() == 0, "the worker is busy")
    gates[1].open()
    first = threads.submit(run, Target(wire, prepared), gates[0].request, hinted(earlier), NO_DEADLINE)
    wait_until(lambda: observer.waiting() == 1, "the less urgent one waits")
    second = threads.submit(run, Target(wire, prepared), gates[1].request, hinted(later), NO_DEADLINE)
    wait_until(lambda: observer.waiting() == 2, "the more urgent one waits")
    held.end()
    second.result(SECONDS)  # if the other one ran first, neither would end before its gate opens
    assert not first.done()
    gates[0].open()
    first.result(SECONDS)


CANCELLED_OPERATIONS = 1500


def test_a_cancelled_preparation_leaves_nothing_behind(endpoint: Endpoint, tmp_path: Path) -> None:
    model = addition_model(operations=CANCELLED_OPERATIONS)
    with WireDevice(endpoint) as wire, RemoteDevice(endpoint, "observer") as observer:
        device = CachingDevice(wire)
        before = observer.usage().prepared_models
        cache = device.entry(tmp_path / "entry").create()
        numbers = [[wire.link.issue(file) for file in files] for files in (cache.model, cache.data)]
        model_cache, data_cache = ([device_pb2.CacheFile(descriptor_id=number) for number in each] for each in numbers)
        message = device_pb2.PrepareModelRequest(
            model=wire.model(model),
            preference=types_pb2.EXECUTION_PREFERENCE_FAST_SINGLE_ANSWER,
            priority=types_pb2.PRIORITY_MEDIUM,
            deadline_ns=NO_DEADLINE,
            model_cache=model_cache,
            data_cache=data_cache,
            token=NO_TOKEN,
        )
        events: Any = wire.device.PrepareModel(message, metadata=wire.metadata)
        assert next(events).preparation.WhichOneof("event") == "launched"
        events.cancel()
        wire.link.drop([number for each in numbers for number in each])
        wait_until(lambda: not held_under(tmp_path, observer.pid), "the preparation, which holds its files, has ended")
        assert observer.usage().prepared_models == before
        sample = broadcast_sum(OperandType.TENSOR_FLOAT32)
        device.check(device.prepare(sample.model), sample)
