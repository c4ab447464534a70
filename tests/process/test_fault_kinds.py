"""Faults on purpose: fences, answers, values, memory, support, caches and the clock."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from nnhal.arrays import Array
from nnhal.clock import now_ns
from nnhal.errors import HalError
from nnhal.fence import FenceState
from nnhal.link.channel import channel_from
from nnhal.remote import RemoteDevice
from nnhal.remote.execution import burst_run
from nnhal.types import NO_DEADLINE, BufferRole, ErrorStatus
from nnhal.v1 import burst_pb2
from nnhal_conformance.channels import Launch
from nnhal_conformance.ways import LAUNCHES, RUNS
from tests.support.additions import addition_in_ashmem, addition_model
from tests.support.caching import CachingDevice
from tests.support.calls import WAYS, held_by, session_with
from tests.support.faulty import METHODS_OF_WAYS, FaultyDevice, execution_in, fault, faulty_device
from tests.support.refusals import FAILURE, INVALID, refusal
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow
SHAPE_WAYS = [way for way in RUNS if way != "run-channel"]


@pytest.mark.parametrize("launch", LAUNCHES)
def test_a_fence_fails_though_the_execution_has_not(faulty: FaultyDevice, launch: str) -> None:
    faulty.control.set(fault("fence", outcome="fails", times=1))
    with session_with(faulty.endpoint) as session:
        way = LAUNCHES[launch](held_by(session, addition_model()), addition_in_ashmem().request)
        launched = way()
        assert launched.fence is not None
        launched.fence.wait_for_end()
        assert launched.fence.state is FenceState.ERROR
        way().require_success()


@pytest.mark.parametrize("launch", LAUNCHES)
def test_a_fence_does_not_signal_until_the_fault_is_cleared(faulty: FaultyDevice, launch: str) -> None:
    faulty.control.set(fault("fence", outcome="never"))
    with session_with(faulty.endpoint) as session:
        launched = LAUNCHES[launch](held_by(session, addition_model()), addition_in_ashmem().request)()
        wait_until(lambda: _has_succeeded(launched), "the execution has ended")
        assert launched.fence is not None
        assert launched.fence.state is FenceState.PENDING
        faulty.control.clear()
        launched.fence.wait(30)


def _has_succeeded(launched: Launch) -> bool:
    """Return whether an execution has ended well; there is no information before it has."""
    try:
        return not launched.info().error_status
    except HalError:
        return False


def test_an_answer_on_a_channel_is_dropped(faulty: FaultyDevice) -> None:
    faulty.control.set(fault("answer", outcome="dropped", operation="ADD", nth=1))
    with RemoteDevice(faulty.endpoint) as remote:
        addition = addition_in_ashmem()
        execution = remote.prepare_model(addition_model()).create_reusable_execution(addition.request)
        channel = channel_from(execution.open_run_channel())
        call = burst_run(execution.handle, NO_DEADLINE)
        addition.fill(1, 2)
        channel.send(call)
        channel.send(call)
        assert burst_pb2.BurstAnswer.FromString(channel.receive()).status == 0  # that of the second call
        assert addition.total()[0] == 3
        assert faulty.control.faults()[0].met == 2
        channel.close()


def test_an_answer_on_a_channel_is_late(faulty: FaultyDevice) -> None:
    faulty.control.set(fault("answer", outcome="late", ms=20))
    with execution_in("burst", faulty.endpoint) as execute:
        began = now_ns()
        execute()
        assert now_ns() - began >= 20_000_000


@pytest.mark.parametrize("way", SHAPE_WAYS)
@pytest.mark.parametrize(("wrong", "shapes"), [("dimensions", [(17,)]), ("count", [(16,), (16,)])])
def test_an_answer_tells_wrong_shapes(
    faulty: FaultyDevice, way: str, wrong: str, shapes: list[tuple[int, ...]]
) -> None:
    faulty.control.set(fault("shapes", METHODS_OF_WAYS[way], wrong=wrong))
    with session_with(faulty.endpoint) as session:
        result = WAYS[way](held_by(session, addition_model()), addition_in_ashmem().request)()
    assert [tuple(shape.dimensions) for shape in result.output_shapes] == shapes


def test_a_client_refuses_an_answer_that_contradicts_the_model(faulty: FaultyDevice) -> None:
    faulty.control.set(fault("shapes", wrong="dimensions"))
    with RemoteDevice(faulty.endpoint) as remote:
        prepared = remote.prepare_model(addition_model())
        refusal(lambda: prepared.execute(addition_in_ashmem().request), FAILURE)


VALUES: dict[str, Callable[[Array], bool]] = {
    "bit_flips": lambda total: bin(int.from_bytes((total.view(np.uint8) ^ _right()).tobytes(), "big")).count("1") == 3,
    "nan": lambda total: bool(np.isnan(total).all()),
    "saturated": lambda total: bool((total == np.finfo(np.float32).max).all()),
}


def _right() -> Array:
    return np.full(16, 3, np.float32).view(np.uint8)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("how", VALUES)
def test_outputs_have_wrong_values(faulty: FaultyDevice, way: str, how: str) -> None:
    faulty.control.set(fault("values", METHODS_OF_WAYS[way], how=how, flips=3, output=0))
    with session_with(faulty.endpoint) as session:
        addition = addition_in_ashmem()
        addition.fill(1, 2)
        WAYS[way](held_by(session, addition_model()), addition.request)()
    assert VALUES[how](addition.total())


def test_wrong_values_arrive_from_a_device_with_a_queue(tmp_path: Path) -> None:
    with faulty_device(tmp_path, driver="gpu_acc") as device, RemoteDevice(device.endpoint) as remote:
        device.control.set(fault("values", how="nan"), fault("slow_clock", factor=2))
        addition = addition_in_ashmem()
        addition.fill(1, 2)
        remote.prepare_model(addition_model()).execute(addition.request)
        assert np.isnan(addition.total()).all()
        assert [state.injected for state in device.control.faults()] == [1, 1]


def test_a_buffer_is_refused(faulty: FaultyDevice) -> None:
    with RemoteDevice(faulty.endpoint) as remote:
        prepared = remote.prepare_model(addition_model())
        faulty.control.set(fault("memory", "Device.Allocate", times=1))

        def allocate() -> object:
            return remote.allocate([prepared], [BufferRole(0, 0, 1.0)], [], (16,))

        refusal(allocate, FAILURE, "injected fault 'memory-")
        allocate()


def test_pools_of_requests_are_refused(faulty: FaultyDevice) -> None:
    with RemoteDevice(faulty.endpoint) as remote:
        prepared = remote.prepare_model(addition_model())
        faulty.control.set(fault("memory", "*", status="RESOURCE_EXHAUSTED_TRANSIENT"))
        request = addition_in_ashmem().request
        refusal(lambda: prepared.execute(request), ErrorStatus.RESOURCE_EXHAUSTED_TRANSIENT)
        refusal(lambda: prepared.create_reusable_execution(request), ErrorStatus.RESOURCE_EXHAUSTED_TRANSIENT)
        burst = prepared.configure_execution_burst()
        refusal(lambda: burst.execute(request), ErrorStatus.RESOURCE_EXHAUSTED_TRANSIENT)


def test_support_is_withdrawn_and_comes_back(faulty: FaultyDevice) -> None:
    with RemoteDevice(faulty.endpoint) as remote:
        model = addition_model(operations=2)
        assert remote.supported_operations(model) == [True, True]
        faulty.control.set(fault("withdrawn", "*", operation="ADD"), fault("withdrawn", "*", operation="CONV_2D"))
        assert remote.supported_operations(model) == [False, False]
        refusal(lambda: remote.prepare_model(model), INVALID)
        faulty.control.clear()
        assert remote.supported_operations(model) == [True, True]
        remote.prepare_model(model)


def test_a_device_with_faults_is_to_be_asked_what_it_supports(faulty: FaultyDevice) -> None:
    with RemoteDevice(faulty.endpoint) as remote:
        model = addition_model()
        remote.prepare_model(model, unasked=True)
        faulty.control.set(
            fault("withdrawn", "*", operation="CONV_2D")
        )  # which a file may have, and this model has not
        remote.prepare_model(model)
        refusal(lambda: remote.prepare_model(model, unasked=True), INVALID)
        faulty.control.clear()


def test_a_cache_is_damaged_for_good(tmp_path: Path) -> None:
    with faulty_device(tmp_path, driver="cpu_acc") as device, session_with(device.endpoint) as wire:
        caching = CachingDevice(wire)
        entry = caching.entry(tmp_path / "entry")
        assert caching.prepare(addition_model(), entry.create()).status == ErrorStatus.NONE
        device.control.set(fault("damaged_cache", "*", times=1))
        before = entry.read()
        assert caching.restore(entry.open()).status == FAILURE
        assert entry.read() != before
        assert caching.restore(entry.open()).status == FAILURE
        assert device.control.faults()[0].injected == 1


def test_a_slow_clock_makes_executions_longer(faulty: FaultyDevice) -> None:
    faulty.control.set(fault("slow_clock", factor=10_000))
    with RemoteDevice(faulty.endpoint) as remote:
        prepared = remote.prepare_model(addition_model())
        with pytest.raises(HalError, match="deadline"):
            prepared.execute(addition_in_ashmem().request, deadline_ns=now_ns() + 30_000_000)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (fault("fence", "Channel.Burst"), "got method Channel.Burst, expected one of PreparedModel.ExecuteFenced"),
        (fault("answer", ms=5), "got outcome 'dropped' with ms 5"),
        (fault("answer", outcome="late"), "got outcome 'late' with ms 0"),
        (fault("damaged_cache"), "expected one of Device.PrepareModelFromCache"),
        (fault("slow_clock", factor=1), "fault 1, factor: got 1"),
    ],
)
def test_kinds_act_in_their_own_calls_only(faulty: FaultyDevice, given: dict[str, object], words: str) -> None:
    refusal(lambda: faulty.control.set(given), INVALID, words)
