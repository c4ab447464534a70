"""Every device is killed at every stage of its work while clients run: no run is lost, and nothing leaks."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import cycle, islice
from pathlib import Path

import numpy as np
import pytest

from nnhal.errors import HalError
from nnhal.remote import RemoteDevice
from nnhal.types import ErrorStatus
from nnhal_client import Binding, Framework, connect
from tests.support.relay import CPU_FIRST, CPU_LAST, DEVICES, TOLERANCE, Client, Fallback, Order, Relay, feed, result
from tests.support.resources import resident_bytes, resources_of, threads_of
from tests.support.waiting import settled, wait_until

CLIENTS = 3
KILLS = 42
RPC_THREADS = 16
"""The size of a process's thread pool, whose threads start as they are needed."""
LAG = KILLS // 2
"""How many descriptors may wait for the next message or garbage collection to be closed."""
GROWTH_BYTES = 10 << 20
MISSED = (ErrorStatus.MISSED_DEADLINE_TRANSIENT, ErrorStatus.MISSED_DEADLINE_PERSISTENT)
SOCKETS = ["device.sock", "link.sock"]


@pytest.fixture(scope="module")
def relay() -> Iterator[Relay]:
    """Run four devices and a framework that the tests share."""
    with tempfile.TemporaryDirectory(prefix="nnhal-") as directory, Relay(Path(directory)) as started:
        yield started


def order_for(victim: str) -> Order:
    return CPU_LAST if victim == "cpu_ref" else CPU_FIRST


@contextmanager
def executing(relay: Relay, victim: str) -> Iterator[None]:
    with relay.nursery.holding(victim, "execute") as reached:
        reached()
        yield


@contextmanager
def waiting_on_a_fence(relay: Relay, victim: str) -> Iterator[None]:
    """Hold another device while the victim has a step of each client that waits for it."""
    order = order_for(victim)
    upstream = order[order.index(victim) - 1]
    with (
        relay.nursery.holding(upstream, "execute") as reached,
        RemoteDevice(relay.nursery.endpoint(victim)) as device,
    ):
        reached()
        wait_until(lambda: device.usage().launched >= CLIENTS, f"{victim} waits on fences")
        yield


STAGES = {"executing": executing, "waiting on a fence": waiting_on_a_fence}


def get_on(relay: Relay, clients: list[Client]) -> None:
    """Wait until every client has had right answers again."""
    before = [client.runs for client in clients]
    wait_until(
        lambda: all(c.runs > count + 2 or c.wrong for c, count in zip(clients, before, strict=True)),
        "every client gets right answers",
    )


@pytest.mark.slow
@pytest.mark.contract("FB-03", "FB-16")
@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("victim", DEVICES)
def test_no_run_is_lost_at_whatever_stage_a_device_is_killed(relay: Relay, victim: str, stage: str) -> None:
    with relay.clients(CLIENTS, "allow", order_for(victim)) as clients:
        with STAGES[stage](relay, victim):
            relay.nursery.kill(victim)
        relay.nursery.start(victim)
        get_on(relay, clients)
    assert [error for client in clients for error in client.errors] == []


@pytest.mark.slow
@pytest.mark.contract("FB-10", "FB-16")
@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("victim", DEVICES)
def test_without_fallback_every_error_names_the_device_that_was_killed(relay: Relay, victim: str, stage: str) -> None:
    with relay.clients(CLIENTS, "deny", order_for(victim)) as clients:
        with STAGES[stage](relay, victim):
            relay.nursery.kill(victim)
        wait_until(lambda: all(client.errors or client.wrong for client in clients), "every client gets an error")
        relay.nursery.start(victim)
        get_on(relay, clients)
    for error in (error for client in clients for error in client.errors):
        assert error.status == ErrorStatus.DEVICE_UNAVAILABLE
        assert victim in error.message


@pytest.mark.slow
@pytest.mark.parametrize("victim", DEVICES)
def test_killing_an_idle_device_does_not_affect_runs(relay: Relay, victim: str) -> None:
    with connect(relay.framework) as session, ThreadPoolExecutor(1) as pool:
        model = relay.load(session, "allow")
        relay.check(model, 1)
        relay.nursery.kill(victim)
        run = pool.submit(relay.check, model, 2)
        if victim != "cpu_ref":  # the other devices' steps fall back to it
            run.result()
        relay.nursery.start(victim)
        run.result()
        relay.check(model, 3)


@pytest.mark.slow
@pytest.mark.contract("FB-11")
@pytest.mark.parametrize("victim", [name for name in DEVICES if name != "cpu_ref"])
def test_a_device_that_is_killed_while_it_prepares_is_left_out(relay: Relay, victim: str) -> None:
    with relay.clients(CLIENTS, "allow") as clients, connect(relay.framework) as session, ThreadPoolExecutor(1) as pool:
        with relay.nursery.holding(victim, "prepare") as reached:
            loading = pool.submit(session.load, relay.path, [victim, "cpu_ref"], partitioner="nnapi")
            reached()
            relay.nursery.kill(victim)
        model = loading.result()
        assert set(model.steps) == {"cpu_ref"}
        relay.check(model, 7)
        relay.nursery.start(victim)
        get_on(relay, clients)
    assert [error for client in clients for error in client.errors] == []


@pytest.mark.slow
@pytest.mark.contract("FB-11")
@pytest.mark.parametrize("victim", DEVICES)
def test_a_device_that_is_killed_while_it_prepares_operations_pinned_to_it_is_named(relay: Relay, victim: str) -> None:
    with relay.clients(CLIENTS, "allow") as clients, connect(relay.framework) as session, ThreadPoolExecutor(1) as pool:
        with relay.nursery.holding(victim, "prepare") as reached:
            loading = pool.submit(relay.load, session, "deny")
            reached()
            relay.nursery.kill(victim)
        with pytest.raises(HalError, match=victim) as caught:
            loading.result()
        assert caught.value.status == ErrorStatus.DEVICE_UNAVAILABLE
        relay.nursery.start(victim)
        get_on(relay, clients)
        relay.check(relay.load(session, "deny"), 7)
    assert [error for client in clients for error in client.errors] == []


@pytest.mark.slow
@pytest.mark.contract("FB-11", "RS-08")
def test_a_load_waits_for_the_cpu_if_it_is_killed_while_it_prepares(relay: Relay) -> None:
    with connect(relay.framework) as session, ThreadPoolExecutor(1) as pool:
        with relay.nursery.holding("cpu_ref", "prepare") as reached:
            loading = pool.submit(session.load, relay.path, ["cpu_ref"])
            reached()
            relay.nursery.kill("cpu_ref")
        relay.nursery.start("cpu_ref")
        relay.check(loading.result(), 7)


class Holdings:
    """What a process holds while it is idle."""

    def __init__(self, pid: int) -> None:
        self.resources = settled(lambda: resources_of(pid))
        self.descriptors = sum(self.resources.descriptors.values())
        self.threads = threads_of(pid)
        self.resident = resident_bytes(pid)


@pytest.mark.slow
def test_kills_under_load_lose_no_run_and_leak_nothing(relay: Relay) -> None:
    """The framework and cpu_ref, which are not killed, hold no more after the kills than before."""
    survivors = {"framework": relay.process.pid, "cpu_ref": relay.nursery.pids["cpu_ref"]}
    with relay.clients(CLIENTS, "allow") as clients:
        kill_in_turn(relay, clients, 12)  # warm-up: makes what is made only once
    shared_memory = set(Path("/dev/shm").iterdir())
    before = {name: Holdings(pid) for name, pid in survivors.items()}
    with relay.clients(CLIENTS, "allow") as clients:
        kill_in_turn(relay, clients, KILLS)
    assert [error for client in clients for error in client.errors] == []
    for name, pid in survivors.items():
        after = Holdings(pid)
        assert after.descriptors <= before[name].descriptors + LAG, f"{name}: {after.resources}"
        assert after.resources.memfd_mappings <= before[name].resources.memfd_mappings, f"{name}: {after.resources}"
        assert after.threads <= before[name].threads + RPC_THREADS
        grown = after.resident - before[name].resident
        assert grown < GROWTH_BYTES, f"{name} has grown by {grown} bytes"
    assert set(Path("/dev/shm").iterdir()) <= shared_memory
    for name in DEVICES:
        assert sorted(path.name for path in (relay.nursery.endpoint(name).directory).glob("*.sock")) == SOCKETS
        with RemoteDevice(relay.nursery.endpoint(name)) as device:
            usage = device.usage()
            assert (usage.prepared_models, usage.executions, usage.launched, usage.buffers) == (0, 0, 0, 0)


def kill_in_turn(relay: Relay, clients: list[Client], kills: int) -> None:
    """Kill all devices but cpu_ref one after the other; after each, wait until every client gets right answers."""
    for victim in islice(cycle([name for name in DEVICES if name != "cpu_ref"]), kills):
        relay.nursery.kill(victim)
        relay.nursery.start(victim)
        get_on(relay, clients)


@pytest.mark.slow
def test_a_stopped_device_does_not_delay_the_use_of_others_and_is_used_when_it_continues(relay: Relay) -> None:
    victim = "gpu_acc"
    with connect(relay.framework) as session, connect(relay.framework) as other:
        used = relay.load(session, "allow")
        relay.check(used, 1)
        elsewhere = other.load(relay.path, devices=["cpu_ref"])
        with relay.nursery.stopped(victim):
            relay.check(elsewhere, 2)
            loaded = other.load(relay.path, devices=[victim, "cpu_ref"], partitioner="nnapi")
            assert set(loaded.steps) == {"cpu_ref"}
            relay.check(loaded, 3)
            loaded.unload()
            elsewhere.unload()
            used.unload()  # its device is told later
        wait_until_used(other, victim)
        again = other.load(relay.path, devices=[victim, "cpu_ref"], partitioner="nnapi")
        assert victim in again.steps
        relay.check(again, 4)
        again.unload()
        with RemoteDevice(relay.nursery.endpoint(victim)) as device:
            wait_until(lambda: device.usage().prepared_models == 0, f"{victim} has nothing left")


@pytest.mark.slow
@pytest.mark.contract("QS-05")
@pytest.mark.parametrize("victim", DEVICES)
@pytest.mark.parametrize("fallback", ["allow", "deny"])
def test_a_run_whose_device_is_stopped_ends_by_its_deadline(relay: Relay, victim: str, fallback: Fallback) -> None:
    with connect(relay.framework) as session:
        binding = relay.load(session, fallback).bind()
        binding.inputs["x"][...] = feed(5)
        binding.run()
        with relay.nursery.stopped(victim):
            with pytest.raises(HalError) as caught:
                binding.run(deadline_ns=time.clock_gettime_ns(time.CLOCK_BOOTTIME) + 200_000_000)
            assert caught.value.status in MISSED
        wait_until_used(session, victim)
        # The run continues when its device does, and then ends.
        wait_until(lambda: runs(binding), "the binding can be used again")
        np.testing.assert_allclose(result(binding.outputs), relay.answers[5], rtol=0, atol=TOLERANCE)


@pytest.mark.slow
def test_a_model_can_be_unloaded_while_it_runs_on_a_stopped_device(relay: Relay) -> None:
    victim = "gpu_acc"
    with connect(relay.framework) as session:
        model = relay.load(session, "allow")
        binding = model.bind()
        binding.inputs["x"][...] = feed(5)
        binding.run()
        with relay.nursery.stopped(victim):
            with pytest.raises(HalError) as caught:
                binding.run(deadline_ns=time.clock_gettime_ns(time.CLOCK_BOOTTIME) + 100_000_000)
            assert caught.value.status in MISSED
            model.unload()
            relay.check(session.load(relay.path, devices=["cpu_ref"]), 6)
        with RemoteDevice(relay.nursery.endpoint(victim)) as device:
            wait_until(lambda: device.usage().executions == 0, f"{victim} has nothing left of the run")
        wait_until_used(session, victim)
        relay.check(relay.load(session, "allow"), 7)


def wait_until_used(session: Framework, victim: str) -> None:
    """Wait until a device that continues is used, if the framework has taken it for one that hangs."""
    wait_until(
        lambda: victim in {device.name for device in session.devices() if device.available}, f"{victim} is used again"
    )


def runs(binding: Binding) -> bool:
    """Return whether the binding runs, since no earlier run of it goes on."""
    try:
        binding.run()
    except HalError as error:
        assert "running already" in error.message
        return False
    return True
