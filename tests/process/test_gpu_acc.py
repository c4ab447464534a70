"""gpu_acc as a process: results of enqueued executions are visible after a sync, all others when the execution ends."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from nnhal.endpoint import Endpoint
from nnhal.fence import Fence, FenceError, create_fence
from nnhal.memory import MappedPool, create_ashmem, open_pool
from nnhal.operations.operand_types import F32
from nnhal.remote import RemoteDevice, RemoteExecution, RemoteLauncher
from nnhal.types import (
    DeviceType,
    ErrorStatus,
    ExecutionConfig,
    Memory,
    Model,
    NetworkEvent,
    OperationType,
    Request,
    Substitution,
)
from nnhal_conformance.ways import RUNS
from tests.support.additions import POOL_KINDS, Addition, addition_in_ashmem, addition_model, argument
from tests.support.agreement import like
from tests.support.calls import WAYS, held_by, session_with
from tests.support.models import Recipe
from tests.support.processes import own_device
from tests.support.resources import counts_of, resources_of
from tests.support.waiting import settled, wait_until

ELEMENTS = 32
"""A vector of so many floats has 128 bytes, so that the device can import each argument."""
PLAIN, MEASURED = ExecutionConfig(), ExecutionConfig(measure_timing=True)
NONE = ErrorStatus.NONE


@pytest.fixture(scope="module")
def gpu_acc() -> Iterator[Endpoint]:
    """Run a process that the module's tests share."""
    with own_device("gpu_acc") as (_, endpoint):
        yield endpoint


@pytest.fixture
def gpu(gpu_acc: Endpoint) -> Iterator[RemoteDevice]:
    with RemoteDevice(gpu_acc, "test") as device:
        yield device


@pytest.fixture
def launcher(gpu: RemoteDevice) -> Iterator[RemoteLauncher]:
    opened = gpu.open_launcher()
    yield opened
    opened.close()


def bound(device: RemoteDevice, memory: Memory | None = None) -> tuple[RemoteExecution, Addition]:
    addition = Addition(memory or create_ashmem(3 * 4 * ELEMENTS), ELEMENTS)
    prepared = device.prepare_model(addition_model(ELEMENTS))
    return prepared.create_reusable_execution(addition.request), addition


def wait(fence: Fence | None) -> None:
    assert fence is not None
    fence.wait()


def enqueue(launcher: RemoteLauncher, execution: RemoteExecution, duration_ns: int = -1) -> None:
    wait(launcher.launch(execution, duration_ns=duration_ns, enqueue=True))


def untouched(addition: Addition) -> bool:
    return bool(np.isnan(addition.total()).all())


def sums_to(addition: Addition, value: float) -> bool:
    return bool((addition.total() == np.float32(value)).all())


def test_gpu_acc_describes_itself(gpu: RemoteDevice) -> None:
    assert gpu.identity().type == DeviceType.GPU
    description = gpu.describe()
    assert description.asynchronous
    assert description.modelled_timing
    assert description.alignment == 128
    assert description.realisation == "emulated on this machine's CPU" or description.realisation.startswith("CUDA: ")
    assert [factory.id for factory in description.tensor_handle_factories] == ["gpu_acc/import", "gpu_acc/buffer"]


@pytest.mark.parametrize("kind", POOL_KINDS)
def test_results_of_enqueued_executions_are_visible_after_a_sync_and_not_before(
    gpu: RemoteDevice, launcher: RemoteLauncher, kind: str, tmp_path: Path
) -> None:
    execution, addition = bound(gpu, POOL_KINDS[kind](3 * 4 * ELEMENTS, tmp_path))
    for number in range(3):
        addition.fill(number, 10)
        enqueue(launcher, execution)
        assert untouched(addition)
        wait(launcher.sync())
        assert sums_to(addition, number + 10)
        assert launcher.info(execution).status == NONE


def test_a_chain_is_enqueued_and_synced_once(gpu: RemoteDevice, launcher: RemoteLauncher) -> None:
    chain = [bound(gpu) for _ in range(5)]
    starter, fence = create_fence()
    ready: Fence | None = fence
    for number, (execution, addition) in enumerate(chain):
        addition.fill(number, 1)
        assert ready is not None
        ready = launcher.launch(execution, [ready], enqueue=True)
    starter.send()
    wait(ready)
    assert all(untouched(addition) for _, addition in chain)
    wait(launcher.sync())
    assert [sums_to(addition, number + 1) for number, (_, addition) in enumerate(chain)] == [True] * 5


@pytest.mark.parametrize("config", [PLAIN, MEASURED])
def test_a_staged_input_may_be_the_result_of_an_enqueued_execution(
    gpu: RemoteDevice, launcher: RemoteLauncher, config: ExecutionConfig
) -> None:
    """The first result does not begin at a multiple of 128: the host copies it out, and into the second execution."""
    size = 4 * ELEMENTS
    memory = create_ashmem(5 * size)
    pool = open_pool(memory, writable=True)
    assert isinstance(pool, MappedPool)
    values = pool.view(0, 5 * size).view(np.float32)
    between = 2 * size + size // 2
    prepared = gpu.prepare_model(addition_model(ELEMENTS))
    first, second = (
        prepared.create_reusable_execution(
            Request((argument(0, size), argument(one, size)), (argument(sum_, size),), (memory,)), config
        )
        for one, sum_ in ((size, between), (between, 4 * size))
    )
    for number in range(3):
        values[:] = np.nan
        values[: 2 * ELEMENTS] = number
        enqueue(launcher, first)
        enqueue(launcher, second)
        wait(launcher.sync())
        np.testing.assert_array_equal(values[4 * ELEMENTS :], 3 * number)
    assert (launcher.info(first).staged_bytes, launcher.info(second).staged_bytes) == (size, size)


def test_a_sync_reports_an_execution_that_failed_before_the_flush(gpu: RemoteDevice, launcher: RemoteLauncher) -> None:
    failing, _ = bound(gpu)
    duration_ns = 400_000_000
    enqueue(launcher, failing, duration_ns)
    ended = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    wait_until(lambda: time.clock_gettime_ns(time.CLOCK_BOOTTIME) > ended + duration_ns, "the deadline passes")
    size = 4 * ELEMENTS
    memory = create_ashmem(4 * size)
    request = Request((argument(size // 2, size), argument(2 * size, size)), (argument(3 * size, size),), (memory,))
    enqueue(launcher, gpu.prepare_model(addition_model(ELEMENTS)).create_reusable_execution(request))
    with pytest.raises(FenceError):
        wait(launcher.sync())
    wait(launcher.sync())


@pytest.mark.parametrize(("way", "measures"), [*((way, False) for way in WAYS), *((way, True) for way in RUNS)])
def test_every_way_to_end_an_execution_makes_its_results_visible(gpu_acc: Endpoint, way: str, measures: bool) -> None:
    with session_with(gpu_acc) as session:
        addition = addition_in_ashmem(ELEMENTS)
        run = WAYS[way](held_by(session, addition_model(ELEMENTS)), addition.request)
        for number in range(3):
            addition.check(partial(run, **{"measure_timing": True} if measures else {}), number, 10)


def test_ending_an_execution_also_completes_those_enqueued_before(gpu_acc: Endpoint, gpu: RemoteDevice) -> None:
    with RemoteDevice(gpu_acc, "other") as other:
        execution, addition = bound(gpu)
        addition.fill(1, 2)
        enqueue(gpu.open_launcher(), execution)
        simple, theirs = bound(other)
        theirs.check(simple.execute, 3, 4)
        assert sums_to(addition, 3)


def test_a_deadline_that_passes_in_the_queue_is_missed_by_its_own_execution_only(
    gpu: RemoteDevice, launcher: RemoteLauncher
) -> None:
    (late, missing), (execution, addition) = bound(gpu), bound(gpu)
    missing.fill(1, 2)
    addition.fill(1, 2)
    duration_ns = 400_000_000
    enqueue(launcher, late, duration_ns)
    ended = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    enqueue(launcher, execution)
    wait_until(lambda: time.clock_gettime_ns(time.CLOCK_BOOTTIME) > ended + duration_ns, "the deadline passes")
    with pytest.raises(FenceError):
        wait(launcher.sync())
    assert launcher.info(late).status == ErrorStatus.MISSED_DEADLINE_TRANSIENT
    assert launcher.info(execution).status == NONE
    assert untouched(missing)
    assert sums_to(addition, 3)
    enqueue(launcher, late)
    wait(launcher.sync())
    assert sums_to(missing, 3)


def test_several_sessions_share_the_queue(gpu_acc: Endpoint) -> None:
    def work(number: int) -> None:
        with RemoteDevice(gpu_acc, f"session {number}") as device:
            launcher = device.open_launcher()
            execution, addition = bound(device)
            for second in range(20):
                addition.fill(number, second)
                enqueue(launcher, execution)
                wait(launcher.sync())
                assert sums_to(addition, number + second)
                assert launcher.info(execution).status == NONE

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))


def test_a_session_that_ends_leaves_nothing_in_the_queue(gpu_acc: Endpoint, gpu: RemoteDevice) -> None:
    before, resources = settled(lambda: counts_of(gpu.usage())), resources_of(gpu.pid)
    with RemoteDevice(gpu_acc, "short-lived") as device:
        launcher = device.open_launcher()
        for execution, addition in [bound(device) for _ in range(4)]:
            addition.fill(1, 2)
            enqueue(launcher, execution)
    wait_until(lambda: counts_of(gpu.usage()) == before, "nothing is held for it")
    wait_until(lambda: resources_of(gpu.pid).within(resources), "its memory is released")


def positive_sum() -> Model:
    """Return an addition followed by RELU."""
    recipe = Recipe()
    terms = [recipe.input(F32, (ELEMENTS,)) for _ in range(2)]
    total = recipe.operation(OperationType.ADD, [*terms, *recipe.integers(0)], like(F32, (ELEMENTS,)))
    return recipe.build(recipe.operation(OperationType.RELU, [total], like(F32, (ELEMENTS,)))).model


def test_fused_operations_are_one_kernel_in_views_costs_and_time(gpu: RemoteDevice) -> None:
    model = positive_sum()
    views = gpu.optimize_subgraph(model)
    assert views.substitutions == (Substitution((0, 1), "ADD + RELU fused"),)
    assert not views.untouched
    assert not views.failed
    costs = gpu.assess_model(model).operation_ns
    assert costs[0] > 0 == costs[1]
    addition = addition_in_ashmem(ELEMENTS)
    execution = gpu.prepare_model(model).create_reusable_execution(addition.request, MEASURED)
    addition.fill(-3, 2)
    timing = execution.execute().timing
    assert sums_to(addition, 0)
    assert timing.time_on_device_ns == round(sum(costs))
    assert timing.time_in_driver_ns >= timing.time_on_device_ns


def test_networks_can_be_loaded_and_unloaded_repeatedly(gpu: RemoteDevice) -> None:
    for network in (1, 2):
        for event in NetworkEvent:
            gpu.notify_network(network, event)
