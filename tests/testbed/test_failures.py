"""Devices that die: killed while clients run, and out of memory."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from nnhal_tools.demo.digits import INPUT, held_out
from tests.support.waiting import wait_until
from tests.testbed.bed import DEVICES, FRAMEWORK, Beside, ContainerBed
from tests.testbed.compose import Container
from tests.testbed.requests import SteadyRequests

pytestmark = pytest.mark.testbed
BACK_SECONDS = 60.0
KILLED = "137"
"""The status of a process that SIGKILL has ended."""


@pytest.fixture(scope="module")
def native(started_bed: ContainerBed) -> Iterator[Beside]:
    """Return a native client that runs the model on each of the devices, all the time."""
    started_bed.wait_until_whole()
    with Beside(started_bed.client, "steady_runs.py", FRAMEWORK, *DEVICES) as runs:
        yield runs


@pytest.fixture(scope="module")
def remote(started_bed: ContainerBed) -> Iterator[SteadyRequests]:
    """Return a client over HTTP that has digits classified all the time."""
    digits = held_out()
    url = f"http://{started_bed.address('framework', 8000)}/v2/models/digits/infer"
    with SteadyRequests(url, started_bed.bearer("infer"), INPUT, digits.images[0]) as requests:
        yield requests


def ran_on(native: Beside, device: str) -> int:
    """Return how many runs had a step on a device so far."""
    return int(native.ask()["ran_on"].get(device, 0))


def start_again(bed: ContainerBed, device: str, end: Callable[[Container], None]) -> Container:
    """End a device's process, and wait until the engine has started its container again."""
    container = bed.project.container(device)
    restarts, pid = container.restarts, container.pid
    end(container)
    wait_until(lambda: container.restarts > restarts and container.pid not in (0, pid), f"{device} is started again")
    return container


@pytest.mark.parametrize("device", DEVICES)
def test_a_device_is_killed_under_load_and_no_request_is_lost(
    bed: ContainerBed, native: Beside, remote: SteadyRequests, device: str
) -> None:
    wait_until(lambda: ran_on(native, device) > 0, f"runs are on {device}", BACK_SECONDS)
    others = {name: bed.project.container(name).pid for name in (*DEVICES, "framework") if name != device}
    answered = remote.answered
    start_again(bed, device, Container.kill)
    bed.wait_until_whole()
    before = ran_on(native, device)
    wait_until(lambda: ran_on(native, device) > before, f"runs are on {device} again", BACK_SECONDS)
    wait_until(lambda: remote.answered > answered, "requests are answered")
    assert set(native.ask()["outcomes"]) == {"right"}
    assert not remote.problems
    assert others == {name: bed.project.container(name).pid for name in others}


def test_a_device_that_takes_more_memory_than_it_may_dies_alone(bed: ContainerBed) -> None:
    others = {name: bed.project.container(name).pid for name in (*DEVICES, "framework") if name != "cpu_ref"}
    since = time.time()
    answers: list[Any] = []

    def exhaust(container: Container) -> None:
        limit = container.inspected["HostConfig"]["Memory"]
        answers.append(bed.in_client("too_large.py", FRAMEWORK, "cpu_ref", str(2 * limit)))

    container = start_again(bed, "cpu_ref", exhaust)
    assert answers == [{"error": "DEVICE_UNAVAILABLE"}]
    events = container.events(since)
    assert [event.status for event in events if event.action == "die"] == [KILLED]
    assert "oom" in {event.action for event in events}
    assert others == {name: bed.project.container(name).pid for name in others}
    bed.wait_until_whole()
    assert bed.in_client("fenced.py", FRAMEWORK, "cpu_acc", "cpu_ref")["right"]
