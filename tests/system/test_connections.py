"""Connections that have ended leave nothing behind, whatever the client did: each listener, each kind of client.

NNHAL_CONNECTIONS says how many there are of each kind, each in a test of its own. With 20,000 of them a kibibyte each
is 20 MiB, which the resident memory shows too; ``pytest -s`` prints it.
"""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from nnhal.endpoint import Endpoint
from nnhal_hosting.supervision import Child
from tests.support.connections import KINDS, Connect
from tests.support.counting import Counted, counted, counting
from tests.support.front_workers import workers_of
from tests.support.model_server import Devices, addresses, arguments
from tests.support.repositories import onnx_file, write
from tests.support.resources import Resources, resident_bytes, resources_of, threads_of
from tests.support.waiting import settled, wait_until

BY_HAND = "NNHAL_CONNECTIONS" in os.environ
COUNT = int(os.environ.get("NNHAL_CONNECTIONS", "50"))
MOST_KEPT = 2800
"""More connections than two processes keep something of, which is 1,024 clients or runs each."""
ROUNDS = 4
"""How many there are until one leaves nothing: the second fills what is kept of the last clients, and what grows by
itself, as histories do, does not grow so much each time.
"""
SPARE_BLOCKS = 500
"""What processes come to hold by themselves in the time that a round takes: histories, and threads of pools."""
AT_A_TIME = 4
SPARE_THREADS = 8
SPARE_DESCRIPTORS = 4
MANY = 5000
"""So many connections show in the resident memory, beside what allocators keep."""
SLACK_MEGABYTES = 8


@dataclass(frozen=True)
class Listener:
    """An address, and the processes that serve there."""

    address: str
    pids: Sequence[int]
    counts: Path


@dataclass(frozen=True)
class Held:
    """What the processes of a listener hold."""

    resources: Sequence[Resources]
    threads: int
    megabytes: float
    """In RAM."""
    counted: Sequence[Counted]

    @property
    def kinds(self) -> Counter[str]:
        return sum((Counter(each.kinds) for each in self.counted), Counter())

    @property
    def blocks(self) -> int:
        return sum(each.blocks for each in self.counted)


@pytest.fixture(scope="module")
def listeners() -> Iterator[Mapping[str, Listener]]:
    """A device, a framework over it, another with front workers, and a dashboard."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="nnhal-")))
        write(folder / "models", "tanh", {"1/model.onnx": onnx_file()})
        stack.enter_context(counting(folder))

        def started(module: str, *words: str) -> Child:
            child = Child(module, words)
            stack.callback(child.stop)
            return child

        device_at = Endpoint(folder / "cpu_ref")
        device = started("nnhal_devices", "cpu_ref", "--endpoint", str(device_at.directory))
        dashboard = started("nnhal_dashboard", "--directory", str(folder), "--port", "0")
        over = Devices({"cpu_ref": device_at}, {})
        device.wait_until_ready()
        words = partial(arguments, repository=folder / "models", over=over)
        plain = started("nnhal_service", *words(folder / "framework"))
        shared = started("nnhal_service", *words(folder / "shared"), "--front-workers", "2")
        for child in (plain, shared, dashboard):
            child.wait_until_ready()
        wait_until(lambda: len(addresses(plain)) == len(addresses(shared)) == 3, "the addresses are printed")
        workers = workers_of(shared)
        page = dashboard.said().split("dashboard: http://")[1].split()[0]
        one = [plain.pid]
        yield {
            name: Listener(address, pids, folder)
            for name, address, pids in (
                *((name, addresses(plain)[name], one) for name in ("http", "grpc", "metrics")),
                *((f"{name} of workers", addresses(shared)[name], [shared.pid, *workers]) for name in ("http", "grpc")),
                ("dashboard", page, [dashboard.pid]),
                ("framework.sock", f"unix:{folder / 'framework/framework.sock'}", one),
                ("framework's link.sock", str(folder / "framework/link.sock"), one),
                ("device.sock", f"unix:{device_at.directory / 'device.sock'}", [device.pid]),
                ("device's link.sock", str(device_at.directory / "link.sock"), [device.pid]),
            )
        }


def held(listener: Listener) -> Held:
    """What the processes hold when nothing of a connection changes any more."""
    resources = settled(lambda: [resources_of(pid) for pid in listener.pids])
    told = [counted(pid, listener.counts) for pid in listener.pids]
    threads = sum(map(threads_of, listener.pids))
    return Held(resources, threads, sum(map(resident_bytes, listener.pids)) / (1 << 20), told)


def connect(kinds: Sequence[Connect], listener: Listener, count: int) -> None:
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        for _ in pool.map(lambda at: kinds[at % len(kinds)](listener.address), range(count * len(kinds))):
            pass


LISTENERS = {
    "http": "http",
    "http of workers": "http",
    "metrics": "metrics",
    "dashboard": "dashboard",
    "grpc": "grpc",
    "grpc of workers": "grpc",
    "framework.sock": "framework.sock",
    "device.sock": "device.sock",
    "framework's link.sock": "link.sock",
    "device's link.sock": "link.sock",
}
"""Each listener, and which connections it takes."""
CASES = [
    (name, kinds)
    for name, kind in LISTENERS.items()
    for kinds in ([(each,) for each in KINDS[kind]] if BY_HAND else [tuple(KINDS[kind])])
]


@pytest.mark.slow
@pytest.mark.timeout(600 + COUNT)
@pytest.mark.parametrize("name, kinds", CASES, ids=[f"{name}, {', '.join(kinds)}" for name, kinds in CASES])
def test_connections_that_have_ended_leave_nothing(
    listeners: Mapping[str, Listener], name: str, kinds: tuple[str, ...]
) -> None:
    listener, asked = listeners[name], [KINDS[LISTENERS[name]][kind] for kind in kinds]
    connect(asked, listener, 20 if BY_HAND else 4)  # what is made once is there
    before = held(listener)
    for turn in range(ROUNDS):
        count = max(COUNT, MOST_KEPT // len(kinds)) if turn == 1 else COUNT
        connect(asked, listener, count)
        after = held(listener)
        grown = {what: more for what, more in (after.kinds - before.kinds).items() if more >= count / 2}
        blocks = after.blocks - before.blocks
        memory = f"{before.megabytes:.1f} to {after.megabytes:.1f} MiB"
        print(f"\n{name}, {', '.join(kinds)}, {count}: {memory}, {blocks} blocks, {grown}", flush=True)
        most = max(SPARE_BLOCKS, count * len(kinds) // 2)
        if not grown and blocks < most:
            break
        before = after
    assert not grown
    assert blocks < most
    assert after.threads <= before.threads + SPARE_THREADS
    assert all(now.within(then, SPARE_DESCRIPTORS) for now, then in zip(after.resources, before.resources, strict=True))
    if count >= MANY:
        assert after.megabytes < before.megabytes + SLACK_MEGABYTES
