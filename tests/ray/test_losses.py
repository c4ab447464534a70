"""Losses of clients when replicas, frameworks and nodes end."""

from __future__ import annotations

import os
import signal
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import tritonclient.grpc
import tritonclient.http
from tritonclient.utils import InferenceServerException

from nnhal.remote.supervisor import SupervisorControl
from tests.ray.ray_cluster import RayCluster, directory_of, worker_node
from tests.support.tritonclients import Triton
from tests.support.waiting import wait_until


@dataclass(frozen=True, slots=True)
class SentRequest:
    """A request: when it began, how long it took, in seconds, and the status of its failure, empty if it succeeded."""

    began: float
    seconds: float
    failure: str


@dataclass
class SteadyRequests:
    """Clients over gRPC, each with a connection of its own. Use it as a context."""

    address: str
    model: str
    clients: int = 4
    shape: tuple[int, ...] = (2, 4)
    """That of the model's input ``x``."""
    seconds: float = 10.0
    """The deadline of a request."""
    sent: list[SentRequest] = field(default_factory=list)

    def __enter__(self) -> SteadyRequests:
        self._stopping = threading.Event()
        self._threads = [threading.Thread(target=self._send) for _ in range(self.clients)]
        for thread in self._threads:
            thread.start()
        self.go_on(20)
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join()

    def go_on(self, count: int) -> None:
        """Wait until so many more requests have succeeded."""
        before = self.succeeded
        wait_until(lambda: self.succeeded >= before + count, f"{count} more requests have succeeded", 60)

    @property
    def succeeded(self) -> int:
        return sum(not request.failure for request in list(self.sent))

    @property
    def failures(self) -> list[str]:
        return [request.failure for request in list(self.sent) if request.failure]

    def _send(self) -> None:
        with tritonclient.grpc.InferenceServerClient(self.address) as client:
            tensor = tritonclient.grpc.InferInput("x", list(self.shape), "FP32")
            tensor.set_data_from_numpy(np.ones(self.shape, np.float32))
            while not self._stopping.is_set():
                began = time.monotonic()
                try:
                    client.infer(self.model, [tensor], client_timeout=self.seconds)
                    failure = ""
                except InferenceServerException as error:
                    failure = str(error)
                self.sent.append(SentRequest(began, time.monotonic() - began, failure))


MODEL = "echo_fp32"
UNLOADED = "echo_int8"
LONG = 180.0


@pytest.fixture(scope="module")
def hosts(cluster: RayCluster, models: Path) -> RayCluster:
    """Two hosts that have all models but the one that a client has had them unload."""
    cluster.deploy(model_repository=str(models), min_hosts=2, max_hosts=2)
    with Triton("grpc", tritonclient.grpc, f"127.0.0.1:{cluster.head.grpc}") as client:
        client.client.unload_model(UNLOADED)
    return cluster


def both(hosts: RayCluster) -> list[dict[str, Any]]:
    """The two replicas, once HAProxy sends requests to both."""
    wait_until(lambda: len(hosts.replicas()) == 2, "both hosts serve", LONG)
    before = hosts.counts(MODEL)

    def both_have_answered() -> bool:
        with Triton("grpc", tritonclient.grpc, f"127.0.0.1:{hosts.head.grpc}") as client:
            client.infer(MODEL, {"x": np.ones((2, 4), np.float32)})
        return all(count > before.get(replica, 0) for replica, count in hosts.counts(MODEL).items())

    wait_until(both_have_answered, "both hosts have answered", LONG)
    return hosts.replicas()


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
    assert not any(has_unloaded_model(replica["pid"]) for replica in hosts.replicas())


def test_a_framework_that_is_killed_loses_no_request(hosts: RayCluster) -> None:
    replica, _ = both(hosts)
    with SteadyRequests(f"127.0.0.1:{hosts.head.grpc}", "tanh", shape=(1, 8), seconds=LONG) as requests:
        os.kill(framework_of(replica["pid"]), signal.SIGKILL)
        with Triton("http", tritonclient.http, f"127.0.0.1:{hosts.head.http}") as client:
            for _ in range(8):
                client.infer(MODEL, {"x": np.ones((2, 4), np.float32)})
        requests.go_on(200)
    assert requests.failures == []  # its replica has waited until it served again
    wait_until(lambda: not has_unloaded_model(replica["pid"]), "the new one has been told what was unloaded", LONG)


def test_a_new_version_replaces_the_old_one_and_loses_at_most_what_that_was_doing(
    hosts: RayCluster, models: Path
) -> None:
    before = {row["id"] for row in hosts.replicas()}
    with SteadyRequests(f"127.0.0.1:{hosts.head.grpc}", MODEL, seconds=LONG) as requests:
        hosts.begin_to_deploy(model_repository=str(models), min_hosts=2, max_hosts=2, max_body=1 << 20)
        wait_until(lambda: _replaced(hosts, before), "both replicas are new", LONG)
        requests.go_on(100)
    assert len(requests.failures) <= requests.clients
    others = [failure for failure in requests.failures if "CANCELLED" not in failure]
    assert others == []  # HAProxy cancels a stream that ends with its host


def test_a_node_that_is_killed_loses_what_it_was_doing(cluster: RayCluster, models: Path) -> None:
    with worker_node(cluster, "victim") as victim:
        cluster.deploy(model_repository=str(models), min_hosts=3, max_hosts=3)
        with SteadyRequests(f"127.0.0.1:{cluster.head.grpc}", MODEL) as requests:
            victim.kill()
            requests.go_on(100)
            wait_until(lambda: len(cluster.replicas()) == 2, "its replica is counted no more", LONG)
            requests.go_on(100)
    assert len(requests.failures) <= requests.clients


def has_unloaded_model(replica: int) -> bool:
    """Return if the framework of a replica has the model that the tests unload."""
    socket = directory_of(replica) / "framework/inference.sock"
    with tritonclient.grpc.InferenceServerClient(f"unix:{socket}") as client:
        return bool(client.is_model_ready(UNLOADED))


def framework_of(replica: int) -> int:
    """The process of the framework that a replica has started."""
    with SupervisorControl(directory_of(replica)) as supervisor:
        return next(each.pid for each in supervisor.processes().processes if each.kind == "framework")


def _replaced(hosts: RayCluster, before: set[str]) -> bool:
    now = {row["id"] for row in hosts.replicas()}
    return len(now) == 2 and not now & before
