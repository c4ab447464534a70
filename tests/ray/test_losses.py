"""What clients lose when replicas and nodes end."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import psutil
import pytest

from tests.support.ray_cluster import RayCluster, worker_node
from tests.support.steady_requests import SteadyRequests
from tests.support.waiting import wait_until

MODEL = "echo_fp32"
LONG = 180.0


@pytest.fixture(scope="module")
def hosts(cluster: RayCluster, models: Path) -> RayCluster:
    """Two hosts that have all models."""
    cluster.deploy(model_repository=str(models), min_hosts=2, max_hosts=2)
    return cluster


def test_a_replica_that_is_killed_loses_what_it_was_doing_and_is_replaced(hosts: RayCluster) -> None:
    killed, _ = hosts.replicas()
    started = [process.pid for process in psutil.Process(killed["pid"]).children(recursive=True)]
    with SteadyRequests(f"127.0.0.1:{hosts.head.grpc}", MODEL) as requests:
        os.kill(killed["pid"], signal.SIGKILL)
        requests.go_on(100)
        ids = {killed["id"]}
        wait_until(lambda: len({row["id"] for row in hosts.replicas()} - ids) == 2, "another has taken its place", LONG)
        requests.go_on(100)
    assert len(requests.failures) <= requests.clients
    assert all("UNAVAILABLE" in failure for failure in requests.failures)
    wait_until(lambda: not any(psutil.pid_exists(pid) for pid in started), "its processes have ended")


def test_a_new_version_replaces_the_old_one_and_loses_at_most_what_that_was_doing(
    hosts: RayCluster, models: Path
) -> None:
    before = {row["id"] for row in hosts.replicas()}
    with SteadyRequests(f"127.0.0.1:{hosts.head.grpc}", MODEL) as requests:
        hosts.begin_to_deploy(model_repository=str(models), min_hosts=2, max_hosts=2, max_body=1 << 20)
        wait_until(lambda: _replaced(hosts, before), "both replicas are new", LONG)
        requests.go_on(100)
    assert len(requests.failures) <= requests.clients
    assert all("CANCELLED" in failure for failure in requests.failures)  # by HAProxy, whose stream ends with the host


def test_a_node_that_is_killed_loses_what_it_was_doing(cluster: RayCluster, models: Path) -> None:
    with worker_node(cluster, "victim") as victim:
        cluster.deploy(model_repository=str(models), min_hosts=3, max_hosts=3)
        with SteadyRequests(f"127.0.0.1:{cluster.head.grpc}", MODEL) as requests:
            victim.kill()
            requests.go_on(100)
            wait_until(lambda: len(cluster.replicas()) == 2, "its replica is counted no more", LONG)
            requests.go_on(100)
    assert len(requests.failures) <= requests.clients


def _replaced(hosts: RayCluster, before: set[str]) -> bool:
    now = {row["id"] for row in hosts.replicas()}
    return len(now) == 2 and not now & before
