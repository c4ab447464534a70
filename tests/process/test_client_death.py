"""Clients that are killed in the middle of their work."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from nnhal.endpoint import Endpoint
from tests.support.bystanders import bystander
from tests.support.killed_clients import killed_client, working
from tests.support.processes import device_process
from tests.support.resources import counts_of, resident_bytes, resources_of, threads_of
from tests.support.searching import further
from tests.support.waiting import settled, wait_until

AT_A_TIME = 10
WARM_UP, ROUNDS = 2, further(2)
MAX_GROWTH_BYTES = 12 << 20
"""The tolerance in bytes, since allocators keep varying amounts of free memory."""
MAX_MORE_THREADS = 20
"""The tolerance for threads of gRPC, which are started as needed; each victim has three or more threads."""


def die(endpoint: Endpoint, number: int) -> None:
    """Run the clients of a round; each dies after other steps, from the opening of its session to many runs later."""

    def live(client: int) -> None:
        with killed_client(working, endpoint.directory, steps=1 + (7 * number + 3 * client) % 40):
            pass

    with ThreadPoolExecutor(AT_A_TIME) as pool:
        list(pool.map(live, range(AT_A_TIME)))


@pytest.mark.slow
@pytest.mark.search
@pytest.mark.parametrize("driver", ["cpu_ref", "cpu_acc"])
def test_killed_clients_leave_nothing_behind_and_others_go_on(short_path: Path, driver: str) -> None:
    with (
        device_process(driver, short_path) as (process, endpoint),
        bystander(endpoint) as other,
    ):
        device = other.device
        before = counts_of(device.usage(), "sessions")
        for number in range(WARM_UP):
            die(endpoint, number)
        wait_until(lambda: counts_of(device.usage(), "sessions") == before, "the warm-up is released")
        resources = settled(lambda: resources_of(process.pid))
        resident, threads = resident_bytes(process.pid), threads_of(process.pid)
        runs = other.runs
        for number in range(ROUNDS):
            die(endpoint, number)
        wait_until(
            lambda: counts_of(device.usage(), "sessions") == before, "everything that the clients had is released"
        )
        wait_until(lambda: resources_of(process.pid) == resources, "the process holds what it held before")
        wait_until(lambda: threads_of(process.pid) <= threads + MAX_MORE_THREADS, "threads have ended")
        assert resident_bytes(process.pid) <= resident + MAX_GROWTH_BYTES
        assert other.runs > runs
