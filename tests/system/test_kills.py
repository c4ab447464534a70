"""Every device is killed at every stage of its work while clients run: no run is lost, and nothing leaks."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from itertools import cycle, islice, pairwise
from pathlib import Path
from types import TracebackType
from typing import Literal

import numpy as np
import pytest

from nnhal.arrays import Array
from nnhal.errors import HalError
from nnhal.remote import RemoteDevice
from nnhal.types import ErrorStatus
from nnhal_client import Binding, Framework, Model, connect
from nnhal_hosting.supervision import Child
from tests.support.drawn_values import integers
from tests.support.nursery import Nursery
from tests.support.processes import WARM
from tests.support.refusals import MISSED
from tests.support.resources import resident_bytes, resources_of, threads_of
from tests.support.searching import further
from tests.support.tflite_files import Spec, TfliteFile, floats, int8
from tests.support.waiting import settled, wait_until

Fallback = Literal["allow", "deny"]
DEVICES = ("gpu_acc", "ethos_n", "cpu_acc", "cpu_ref")
Order = tuple[str, ...]
"""The device of each operation. Each device runs its operations as one step, which waits for the step before."""
CPU_FIRST: Order = ("cpu_ref", "gpu_acc", "ethos_n", "cpu_acc", "cpu_acc")
CPU_LAST: Order = ("gpu_acc", "gpu_acc", "ethos_n", "cpu_acc", "cpu_ref")
_SCALE, _SHAPE = 0.05, (1, 8, 8, 4)
TOLERANCE = 2 * _SCALE
"""The tolerance between devices, which may round to neighbouring integers."""


def relay_model() -> bytes:
    """Return tanh, quantisation, a convolution of 8-bit integers, dequantisation, and tanh."""
    file = TfliteFile()
    real, integer = floats(*_SHAPE), int8(*_SHAPE, scale=_SCALE)
    x = file.input("x", real)
    (a,) = file.operator("TANH", [x], {"step0": real})
    (b,) = file.operator("QUANTIZE", [a], {"step1": integer})
    filter_ = file.constant(integers(4, 1, 1, 4), int8(4, 1, 1, 4, scale=[0.004] * 4))
    bias = file.constant(integers(4), Spec([4], np.int32, [_SCALE * 0.004] * 4))
    window = ("Conv2DOptions", {"Padding": 0, "StrideW": 1, "StrideH": 1, "FusedActivationFunction": 0})
    (c,) = file.operator("CONV_2D", [b, filter_, bias], {"step2": integer}, window)
    (d,) = file.operator("DEQUANTIZE", [c], {"step3": real})
    (y,) = file.operator("TANH", [d], {"step4": real})
    return file.build(y)


def feed(number: int) -> Array:
    return np.random.default_rng(number).uniform(-1, 1, _SHAPE).astype(np.float32)


class Relay:
    """Four devices, a framework, and the model. ``answers`` has the right output for ``feed`` of each number."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "relay.tflite"
        self.path.write_bytes(relay_model())
        self.nursery = Nursery(directory)
        for name in DEVICES:
            self.nursery.start(name)
        endpoints = [f"--device={name}={self.nursery.endpoint(name).directory}" for name in DEVICES]
        self.framework = directory / "framework"
        self.process = Child("nnhal_service", ["--endpoint", str(self.framework), *endpoints], zygote=WARM)
        self.process.wait_until_ready()
        with connect(self.framework) as session:
            reference = session.load(self.path, devices=["cpu_ref"])
            self.answers = [result(reference.run({"x": feed(number)})) for number in range(8)]

    def load(self, session: Framework, fallback: Fallback, order: Order = CPU_LAST) -> Model:
        pins = {f"name:*step{number}": device for number, device in enumerate(order)}
        model = session.load(self.path, pins=pins, fallback=fallback)
        assert model.steps == tuple(dict.fromkeys(order))
        return model

    def check(self, model: Model, number: int) -> None:
        np.testing.assert_allclose(result(model.run({"x": feed(number)})), self.answers[number], rtol=0, atol=TOLERANCE)

    @contextmanager
    def clients(self, count: int, fallback: Fallback, order: Order = CPU_LAST) -> Iterator[list[Client]]:
        """Start clients that run without pause; the first error of one of them is raised when the context ends."""
        clients = [Client(self, number, fallback, order) for number in range(count)]
        try:
            wait_until(lambda: all(client.runs > 1 or client.wrong for client in clients), "every client runs")
            yield clients
        finally:
            for client in clients:
                client.stop.set()
            for client in clients:
                client.thread.join(60)
        for client in clients:
            if client.wrong:
                raise client.wrong[0]
            assert not client.thread.is_alive()

    def close(self) -> None:
        self.process.stop()
        self.nursery.close()

    def __enter__(self) -> Relay:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Client:
    """Runs the model repeatedly. ``runs`` counts right outputs, ``errors`` has the errors of other runs."""

    def __init__(self, relay_: Relay, number: int, fallback: Fallback, order: Order) -> None:
        self.runs = 0
        self.errors: list[HalError] = []
        self.wrong: list[BaseException] = []
        self.stop = threading.Event()
        self._relay, self._number, self._fallback, self._order = relay_, number, fallback, order
        self.thread = threading.Thread(target=self._run, name=f"client-{number}")
        self.thread.start()

    def _run(self) -> None:
        try:
            with connect(self._relay.framework) as session:
                model = self._relay.load(session, self._fallback, self._order)
                while not self.stop.is_set():
                    try:
                        self._relay.check(model, self._number)
                        self.runs += 1
                    except HalError as error:
                        self.errors.append(error)
        except BaseException as error:
            self.wrong.append(error)


def result(outputs: Mapping[str, Array]) -> Array:
    (array,) = outputs.values()
    return array


CLIENTS = 3
KILLS = further(6)
RPC_THREADS = 16
"""The size of a process's thread pool, whose threads start as they are needed."""
LAG = KILLS // 2
"""How many descriptors may wait for the next message or garbage collection to be closed."""
GROWTH_BYTES = 10 << 20
SOCKETS = ["device.sock", "link.sock"]


@pytest.fixture(scope="module")
def relay() -> Iterator[Relay]:
    """Run four devices and a framework that the tests share."""
    with tempfile.TemporaryDirectory(prefix="nnhal-") as directory, Relay(Path(directory)) as started:
        yield started


Stage = Callable[[Relay, str], AbstractContextManager[None]]


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


VICTIMS = [
    ("gpu_acc", executing),
    ("cpu_ref", executing),
    ("ethos_n", waiting_on_a_fence),
    ("cpu_acc", waiting_on_a_fence),
]
"""Every device, at the stage at which it is killed: what a device does at a stage is not its driver's."""


def get_on(relay: Relay, clients: list[Client]) -> None:
    """Wait until every client has had right answers again."""
    before = [client.runs for client in clients]
    wait_until(
        lambda: all(c.runs > count + 2 or c.wrong for c, count in zip(clients, before, strict=True)),
        "every client gets right answers",
    )


@pytest.mark.slow
@pytest.mark.contract("FB-03", "FB-16")
@pytest.mark.parametrize(("victim", "stage"), VICTIMS)
def test_no_run_is_lost_at_whatever_stage_a_device_is_killed(relay: Relay, victim: str, stage: Stage) -> None:
    with relay.clients(CLIENTS, "allow", order_for(victim)) as clients:
        with stage(relay, victim):
            relay.nursery.kill(victim)
        relay.nursery.start(victim)
        get_on(relay, clients)
    assert [error for client in clients for error in client.errors] == []


@pytest.mark.slow
@pytest.mark.contract("FB-10", "FB-16")
@pytest.mark.parametrize(("victim", "stage"), VICTIMS)
def test_without_fallback_every_error_names_the_device_that_was_killed(relay: Relay, victim: str, stage: Stage) -> None:
    with relay.clients(CLIENTS, "deny", order_for(victim)) as clients:
        with stage(relay, victim):
            relay.nursery.kill(victim)
        wait_until(lambda: all(client.errors or client.wrong for client in clients), "every client gets an error")
        relay.nursery.start(victim)
        get_on(relay, clients)
    for error in (error for client in clients for error in client.errors):
        assert error.status == ErrorStatus.DEVICE_UNAVAILABLE
        assert victim in error.message


@pytest.mark.slow
@pytest.mark.contract("FB-01", "FB-09", "FB-16")
def test_a_whole_model_on_a_device_that_dies_runs_on_the_cpu(relay: Relay) -> None:
    with connect(relay.framework) as session:
        model = session.load(relay.path, pins={"name:*": "cpu_acc"})
        assert model.steps == ("cpu_acc",)
        relay.check(model, 1)
        relay.nursery.kill("cpu_acc")
        for number in range(5):
            relay.check(model, number)
        relay.nursery.start("cpu_acc")


@pytest.mark.slow
@pytest.mark.contract("FB-10")
def test_no_other_device_is_used_than_those_listed(relay: Relay) -> None:
    *listed, _ = DEVICES
    with connect(relay.framework) as session:
        pins = {f"name:*step{number}": device for number, device in enumerate((*CPU_LAST[:-1], listed[-1]))}
        model = session.load(relay.path, devices=listed, pins=pins)
        relay.check(model, 1)
        relay.nursery.kill("gpu_acc")
        with pytest.raises(HalError) as caught:
            relay.check(model, 2)
        assert caught.value.status == ErrorStatus.DEVICE_UNAVAILABLE
        relay.nursery.start("gpu_acc")


@pytest.mark.slow
def test_after_a_fallback_the_ledger_shows_the_fallback_device(relay: Relay) -> None:
    with connect(relay.framework) as session:
        model = relay.load(session, "allow")
        _, whole = model.run_with_report({"x": feed(1)})
        assert not whole.fell_back
        assert [(entry.source, entry.destination) for entry in whole.ledger] == [*pairwise(("", *DEVICES, ""))]
        relay.nursery.kill("ethos_n")
        _, report = model.run_with_report({"x": feed(1)})
        relay.nursery.start("ethos_n")
    assert report.fell_back
    devices = {step.step: step.device for step in report.steps}
    assert "ethos_n" not in devices.values()
    for entry in report.ledger:
        assert entry.source == devices.get(entry.source_step, "")
        assert entry.destination == devices.get(entry.destination_step, "")
    assert sum(entry.copied_bytes for entry in report.ledger) == sum(step.copied_bytes for step in report.steps)


@pytest.mark.slow
@pytest.mark.contract("FB-11")
@pytest.mark.parametrize("victim", ["gpu_acc", "cpu_acc"])
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
@pytest.mark.parametrize("victim", ["ethos_n", "cpu_ref"])
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


class Survivor:
    """Resources of a process while it is idle."""

    def __init__(self, pid: int) -> None:
        self.resources = settled(lambda: resources_of(pid))
        self.descriptors = sum(self.resources.descriptors.values())
        self.threads = threads_of(pid)
        self.resident = resident_bytes(pid)


@pytest.mark.slow
@pytest.mark.search
def test_kills_under_load_lose_no_run_and_leak_nothing(relay: Relay) -> None:
    """The framework and cpu_ref, which are not killed, hold no more after the kills than before."""
    survivors = {"framework": relay.process.pid, "cpu_ref": relay.nursery.pids["cpu_ref"]}
    with relay.clients(CLIENTS, "allow") as clients:
        kill_in_turn(relay, clients, 3)  # warm-up: makes what is made only once
    shared_memory = set(Path("/dev/shm").iterdir())
    before = {name: Survivor(pid) for name, pid in survivors.items()}
    with relay.clients(CLIENTS, "allow") as clients:
        kill_in_turn(relay, clients, KILLS)
    assert [error for client in clients for error in client.errors] == []
    for name, pid in survivors.items():
        after = Survivor(pid)
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
@pytest.mark.parametrize(
    ("victim", "fallback", "is_launched"),
    [
        ("gpu_acc", "allow", False),
        ("ethos_n", "deny", False),
        ("cpu_acc", "allow", False),
        ("cpu_acc", "allow", True),
        ("cpu_ref", "deny", False),
    ],
)
def test_a_run_whose_device_is_stopped_ends_by_its_deadline(
    relay: Relay, victim: str, fallback: Fallback, is_launched: bool
) -> None:
    with connect(relay.framework) as session:
        binding = relay.load(session, fallback).bind()
        binding.inputs["x"][...] = feed(5)
        binding.run()
        with relay.nursery.stopped(victim):
            deadline_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME) + 200_000_000
            with pytest.raises(HalError) as caught:
                binding.launch(deadline_ns=deadline_ns).wait() if is_launched else binding.run(deadline_ns)
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
