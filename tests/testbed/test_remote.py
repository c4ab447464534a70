"""A device that is reached over TCP: the other host is a container that shares nothing with the framework's."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest

from tests.support.waiting import wait_until
from tests.testbed.bed import FRAMEWORK, Beside, ContainerBed, beside, inside
from tests.testbed.compose import FILE, ROOT, ComposeProject, docker

pytestmark = pytest.mark.testbed
FAR, NEAR = "npu-host", "npu_7"
LAG_SECONDS = 0.02
LOSS = "1%"
BACK_SECONDS = 60.0
Lag = Callable[[ContainerBed, ComposeProject, pytest.MonkeyPatch], AbstractContextManager[None]]


@pytest.fixture(scope="module")
def remote(started_bed: ContainerBed) -> Iterator[ComposeProject]:
    """Return the project with the other host, whose device nobody uses yet."""
    project = ComposeProject(started_bed.project.name, (FILE, ROOT / "deploy/compose.remote.yml"))
    project.run("up", "--detach", "--no-build", "--no-recreate", FAR)
    try:
        wait_until(lambda: project.container(FAR).serves, f"{FAR} serves", BACK_SECONDS)
        yield project
    finally:
        project.run("rm", "--stop", "--force", FAR)


@contextmanager
def using(bed: ContainerBed, remote: ComposeProject) -> Iterator[None]:
    """Have the framework know the device on the other host, until the context ends."""
    remote.run("up", "--detach", "--no-build", "--no-recreate", NEAR)
    try:
        wait_until(lambda: remote.container(NEAR).serves, f"{NEAR} serves", BACK_SECONDS)
        bed.nnhal("ctl", "add", NEAR)
        yield
        bed.nnhal("ctl", "remove", NEAR)
    finally:
        remote.run("rm", "--stop", "--force", NEAR)


def test_a_device_on_another_host_runs_and_comes_back_when_it_has_died(
    bed: ContainerBed, remote: ComposeProject
) -> None:
    with using(bed, remote), Beside(bed.client, "steady_runs.py", FRAMEWORK, NEAR) as native:

        def ran_there() -> int:
            return int(native.ask()["ran_on"].get(NEAR, 0))

        wait_until(lambda: ran_there() > 0, "runs are on the other host", BACK_SECONDS)
        far, near = remote.container(FAR), remote.container(NEAR)
        restarts = far.restarts, near.restarts
        far.kill()
        wait_until(lambda: far.restarts > restarts[0] and near.restarts > restarts[1], "both are started again")
        wait_until(lambda: bed.standings()[NEAR]["available"], "the framework has it again", BACK_SECONDS)
        before = ran_there()
        wait_until(lambda: ran_there() > before, "runs are on the other host again", BACK_SECONDS)
        assert set(native.ask()["outcomes"]) == {"right"}


def test_large_tensors_go_over_the_wire_and_are_counted(bed: ContainerBed, remote: ComposeProject) -> None:
    with using(bed, remote):
        answer = bed.in_client("large_tensors.py", FRAMEWORK, NEAR, "cpu_ref")
    assert answer["right"] and answer["steps"] == [NEAR, "cpu_ref"]
    assert answer["staged_bytes"] == 2 * (16 << 20)  # up and down again


@contextmanager
def lag_of_a_relay(bed: ContainerBed, remote: ComposeProject, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have each byte arrive later, by a relay in a container of its own."""
    network = ("--network", f"{bed.project.name}_front", "--network-alias=relay")
    with beside(bed.image, *network) as relay:
        docker("exec", "--detach", relay.id, *inside("lagging_relay.py"), f"{FAR}:9000", str(LAG_SECONDS))
        monkeypatch.setenv("NNHAL_REMOTE", "relay:9000")
        yield


@contextmanager
def lag_of_the_network(bed: ContainerBed, remote: ComposeProject, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have each packet of the other host leave later, and some never, by the kernel's netem."""
    if shutil.which("tc") is None or shutil.which("nsenter") is None:
        pytest.skip("tc and nsenter are missing")
    within = ["nsenter", f"--net=/proc/{remote.container(FAR).pid}/ns/net", "tc", "qdisc"]
    what = ["netem", "delay", f"{LAG_SECONDS * 1000:g}ms", "loss", LOSS]
    done = subprocess.run([*within, "add", "dev", "eth0", "root", *what], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"tc netem cannot be used here: {done.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run([*within, "del", "dev", "eth0", "root"], check=True)


@pytest.mark.parametrize("lag", [lag_of_a_relay, lag_of_the_network])
def test_a_slow_wire_works_and_plans_avoid_it(
    bed: ContainerBed, remote: ComposeProject, monkeypatch: pytest.MonkeyPatch, lag: Lag
) -> None:
    with lag(bed, remote, monkeypatch), using(bed, remote):
        answer = bed.in_client("planned.py", FRAMEWORK, NEAR, "cpu_ref")
    assert answer["right"] and answer["pinned"] == [NEAR]
    assert answer["steps"] == ["cpu_ref"]
