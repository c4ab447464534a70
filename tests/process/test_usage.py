"""Counts of a device are exact without a garbage collection, which would stop its executions."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from nnhal.endpoint import Endpoint
from nnhal.errors import HalError
from nnhal.fence import FenceError
from nnhal.link.channel import channel_from
from nnhal.memory import create_ashmem
from nnhal.remote import RemoteDevice
from nnhal.remote.execution import burst_run
from nnhal.types import NO_DEADLINE, BufferRole
from tests.support.additions import (
    ELEMENTS,
    POOL_BYTES,
    POOL_KINDS,
    TENSOR_BYTES,
    Addition,
    addition_in_ashmem,
    addition_model,
    addition_of_constant,
)
from tests.support.chains import DIAMOND, Chain
from tests.support.processes import device_process
from tests.support.resources import counts_of, everything_given_back
from tests.support.waiting import wait_until

NAME = "Uncollected"
_BACKEND = """
import gc
import os

from nnhal_devices.registry import create_driver

BACKEND_ID = {name!r}
API_VERSION = (1, 0)


def create_backend(options):
    driver = create_driver({driver!r}, options)
    gc.disable()
    gc.callbacks.append(lambda phase, info: os.abort())
    return driver
"""


@contextmanager
def uncollected_device(driver: str, directory: Path, *options: str) -> Iterator[Endpoint]:
    """Serve a driver in such a process, which ends with the context."""
    backends = directory / "backends"
    backends.mkdir()
    (backends / "Test_Uncollected_backend.py").write_text(_BACKEND.format(name=NAME, driver=driver))
    with device_process(NAME, directory, "--backend-path", str(backends), *options) as (_, endpoint):
        yield endpoint


EXPIRED_NS = 1
Use = Callable[[RemoteDevice], object]


@pytest.fixture(scope="module", params=["cpu_ref", "cpu_acc", "cpu_acc --allow-faults", "gpu_acc"])
def endpoint(request: pytest.FixtureRequest) -> Iterator[Endpoint]:
    """A device process that cannot collect garbage."""
    driver, *options = request.param.split()
    with (
        tempfile.TemporaryDirectory(prefix="nnhal-") as directory,
        uncollected_device(driver, Path(directory), *options) as served,
    ):
        yield served


def prepare(device: RemoteDevice) -> object:
    """Prepare a model whose constant lies in a pool."""
    return device.prepare_model(addition_of_constant(create_ashmem(POOL_BYTES)))


def execute(device: RemoteDevice) -> object:
    """Execute over gRPC, with memory of two kinds, and with a deadline that is missed."""
    prepared = device.prepare_model(addition_model())
    for kind in ("ashmem", "blob"):
        prepared.execute(Addition(POOL_KINDS[kind](POOL_BYTES, Path())).request)
    with pytest.raises(HalError, match="deadline"):
        prepared.execute(addition_in_ashmem().request, deadline_ns=EXPIRED_NS)
    return prepared


def burst(device: RemoteDevice) -> object:
    """Execute on a burst that caches its pool."""
    prepared = device.prepare_model(addition_model())
    opened = prepared.configure_execution_burst()
    addition = addition_in_ashmem()
    opened.execute(addition.request, [7])
    opened.run(prepared.create_reusable_execution(addition.request))
    return opened


def run_channel(device: RemoteDevice) -> object:
    """Run an execution on its run channel, and replace the channel."""
    execution = device.prepare_model(addition_model()).create_reusable_execution(addition_in_ashmem().request)
    channels = [channel_from(execution.open_run_channel()) for _ in range(2)]
    for deadline_ns in (NO_DEADLINE, EXPIRED_NS):
        channels[-1].send(burst_run(execution.handle, deadline_ns))
        assert channels[-1].receive()
    return execution, channels


def launches(device: RemoteDevice) -> object:
    """Launch on a channel, one after the other and as a chain, and enqueue on an asynchronous device."""
    launcher = device.open_launcher()
    prepared = device.prepare_model(addition_model())
    executions = [prepared.create_reusable_execution(addition_in_ashmem().request) for _ in range(3)]
    fence = None
    for execution in executions:
        fence = launcher.launch(execution, [fence] if fence else [], enqueue=True)
    synced = launcher.sync()
    assert synced is not None
    synced.wait(30)
    return launcher


def wired_chain(device: RemoteDevice) -> object:
    """Wire executions, run them, with a deadline that is missed too, and leave the chain open."""
    if not device.describe().can_be_wired:
        return device.prepare_model(addition_model())
    chain = Chain([device], DIAMOND, measures=True)
    chain.check(1)
    chain.run(EXPIRED_NS)
    return chain


def failed_launch(device: RemoteDevice) -> object:
    """Launch an execution that fails, on an asynchronous device in its queue."""
    launcher = device.open_launcher()
    execution = device.prepare_model(addition_model()).create_reusable_execution(addition_in_ashmem().request)
    duration_ns = 100_000_000
    fence = launcher.launch(execution, [], duration_ns=duration_ns, enqueue=True)
    ended = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    wait_until(lambda: time.clock_gettime_ns(time.CLOCK_BOOTTIME) > ended + duration_ns, "the deadline passes")
    synced = launcher.sync()
    for each in (fence, synced):
        try:
            assert each is not None
            each.wait(30)
        except FenceError:
            pass
    return launcher


def device_memory(device: RemoteDevice) -> object:
    """Fill a buffer, use it as an input, and read one that holds nothing."""
    prepared = device.prepare_model(addition_model())
    buffers = [device.allocate([prepared], [BufferRole(0, 0)], []) for _ in range(2)]
    buffers[0].copy_from(create_ashmem(TENSOR_BYTES), (ELEMENTS,))
    with pytest.raises(HalError, match="uninitialised"):
        buffers[1].copy_to(create_ashmem(TENSOR_BYTES))
    return buffers


USES: list[Use] = [prepare, execute, burst, run_channel, launches, wired_chain, failed_launch, device_memory]


@pytest.mark.parametrize("use", USES)
def test_a_session_that_ends_leaves_nothing_behind(endpoint: Endpoint, use: Use) -> None:
    with everything_given_back(endpoint), RemoteDevice(endpoint, "short-lived") as device:
        kept = use(device)
        assert sum(counts_of(device.usage())) > 0
        del kept


def test_what_is_released_is_counted_no_more_while_the_session_goes_on(endpoint: Endpoint) -> None:
    with RemoteDevice(endpoint, "long-lived") as device:
        before = device.usage()
        prepared = device.prepare_model(addition_model())
        execution = prepared.create_reusable_execution(addition_in_ashmem().request)
        opened = prepared.configure_execution_burst()
        channel = channel_from(execution.open_run_channel())
        held = device.usage()
        assert (held.prepared_models, held.executions, held.bursts) == (
            before.prepared_models + 1,
            before.executions + 1,
            before.bursts + 1,
        )
        assert held.mapped_bytes > before.mapped_bytes
        execution.release()
        opened.close()
        prepared.release()
        channel.close()
        # All but the descriptors: the client has put the pool on the link, and may name it again.
        wait_until(
            lambda: counts_of(device.usage())[1:] == counts_of(before)[1:], "the process holds what it held before"
        )
