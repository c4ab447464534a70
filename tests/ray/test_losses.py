"""What clients lose when replicas, frameworks and nodes end."""

from __future__ import annotations

import os
import re
import signal
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import tritonclient.grpc
from tritonclient.utils import InferenceServerException

from nnhal.remote.supervisor import SupervisorControl
from tests.support.ray_cluster import RayCluster, worker_node
from tests.support.stateful_models import SUM, write_stateful_models
from tests.support.steady_requests import SteadyRequests
from tests.support.tritonclients import Triton
from tests.support.waiting import wait_until

MODEL = "echo_fp32"
LONG = 180.0
INITIAL = 10.0
"""Where the sums of SUM begin."""


@pytest.fixture(scope="module")
def hosts(cluster: RayCluster, models: Path) -> RayCluster:
    """Two hosts that have all models."""
    write_stateful_models(models)
    cluster.deploy(model_repository=str(models), min_hosts=2, max_hosts=2)
    return cluster


_ids = count(1)


def both(hosts: RayCluster) -> list[dict[str, Any]]:
    """The two replicas, once HAProxy sends requests to both."""
    wait_until(lambda: len(hosts.replicas()) == 2, "both hosts serve", LONG)
    before = hosts.counts(MODEL)

    def both_have_answered() -> bool:
        with Triton("grpc", tritonclient.grpc, f"127.0.0.1:{hosts.head.grpc}") as client:
            client.infer(MODEL, {"x": np.ones((2, 4), np.float32)})
        now = hosts.counts(MODEL)
        return all(now.get(row["node"], 0) > before.get(row["node"], 0) for row in hosts.replicas())

    wait_until(both_have_answered, "both hosts have answered", LONG)
    return hosts.replicas()


def run(triton: Triton, identifier: int, start: bool = False) -> float:
    """How many requests of a sequence have been added up. Each has a connection of its own, and may go to any host."""
    with Triton(triton.name, triton.api, triton.address) as client:
        x = {"x": np.ones(3, np.float32)}
        found = client.infer(SUM, x, sequence_id=identifier, sequence_start=start)
        return float(found.as_numpy("y")[0]) - INITIAL


def test_a_sequence_keeps_its_state_whichever_host_gets_its_requests(triton: Triton) -> None:
    identifier = next(_ids)
    for length in (7, 5):
        assert [run(triton, identifier, start=not turn) for turn in range(length)] == list(range(1, length + 1))


def test_a_sequence_that_no_host_has_says_that_it_is_lost(triton: Triton) -> None:
    with pytest.raises(
        InferenceServerException, match=f"sequence 4711 of model '{SUM}' is lost: no host has its state"
    ):
        run(triton, 4711)


def test_a_sequence_whose_host_is_killed_is_lost_and_can_be_started_again(hosts: RayCluster) -> None:
    triton = Triton("grpc", tritonclient.grpc, f"127.0.0.1:{hosts.head.grpc}")
    ids = [next(_ids) for _ in range(8)]
    for identifier in ids:
        run(triton, identifier, start=True)
    killed, _ = both(hosts)
    os.kill(killed["pid"], signal.SIGKILL)
    wait_until(
        lambda: {row["id"] for row in hosts.replicas()}.isdisjoint({killed["id"]}), "it is counted no more", LONG
    )
    for identifier in ids:
        try:
            assert run(triton, identifier) == 2
        except InferenceServerException as error:
            assert f"sequence {identifier} of model '{SUM}' is lost" in str(error)
            assert run(triton, identifier, start=True) == 1


def test_a_replica_that_is_killed_loses_no_request_and_is_replaced(hosts: RayCluster) -> None:
    killed, _ = both(hosts)
    started = [process.pid for process in psutil.Process(killed["pid"]).children(recursive=True)]
    with SteadyRequests(f"127.0.0.1:{hosts.head.grpc}", MODEL, seconds=LONG) as requests:
        os.kill(killed["pid"], signal.SIGKILL)
        requests.go_on(100)
        ids = {killed["id"]}
        wait_until(lambda: len({row["id"] for row in hosts.replicas()} - ids) == 2, "another has taken its place", LONG)
        requests.go_on(100)
    assert requests.failures == []  # HAProxy has asked another host
    wait_until(lambda: not any(psutil.pid_exists(pid) for pid in started), "its processes have ended")


def test_a_framework_that_is_killed_loses_no_request(hosts: RayCluster) -> None:
    replica, _ = both(hosts)
    with SteadyRequests(f"127.0.0.1:{hosts.head.grpc}", "tanh", shape=(1, 8), seconds=LONG) as requests:
        os.kill(framework_of(replica["pid"]), signal.SIGKILL)
        requests.go_on(200)
    assert requests.failures == []  # its replica has asked the other one, or has waited until it served again
    page = hosts.metrics()
    answered = re.findall(r'^nnhal_ray_asked_again_total{node="\w+",outcome="(\w+)"} (\d+)$', page, re.M)
    assert sum(int(count) for outcome, count in answered if outcome == "failed") == 0
    assert len(answered) == 4


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


def framework_of(replica: int) -> int:
    """The process of the framework that a replica has started."""
    words = next(words for each in psutil.Process(replica).children() if "nnhal_tools" in (words := each.cmdline()))
    with SupervisorControl(Path(words[words.index("--directory") + 1])) as supervisor:
        return next(each.pid for each in supervisor.processes().processes if each.kind == "framework")


def _replaced(hosts: RayCluster, before: set[str]) -> bool:
    now = {row["id"] for row in hosts.replicas()}
    return len(now) == 2 and not now & before
