"""Nodes of a Ray cluster on this host, and nnhal on them by Ray Serve."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import tritonclient.grpc
import yaml

from nnhal_ray.nodes import environment, new_token
from tests.support.ports import free_port
from tests.support.waiting import wait_until

ROOT = Path(__file__).parents[2]
CONFIG = ROOT / "deploy/ray/serve.yaml"
_DRIVER = "tests.ray.ray_driver"
_BIN = Path(sys.executable).parent
_STARTING_SECONDS = 180.0
_PORTS = ("dashboard-agent-listen-port", "dashboard-agent-grpc-port", "metrics-export-port", "runtime-env-agent-port")
"""Options of ports that two nodes of one host would share otherwise."""
TOKEN = "token"
"""The file of the cluster's token, in its directory."""
_NOT_LOOPBACK = "0.0.0.0"
"""Two nodes of one host have its own address, since Ray lets none join at the loopback's."""
_STORE_BYTES = 100_000_000
"""Tensors do not go through Ray's object store."""


class RayNode:
    """A node of Ray: its processes, and the ports of its proxy. Use it as a context."""

    def __init__(self, directory: Path, head: int | None, http: int, grpc: int, resources: Mapping[str, float]) -> None:
        """``head`` is the port of the head node to join; None if this is to be the head."""
        self.http, self.grpc = http, grpc
        self.gcs = free_port() if head is None else head
        self.is_head = head is None
        directory.mkdir()
        environment = environment_of(directory, directory.parent / TOKEN) | {
            "RAY_SERVE_WORKER_PROXY_HTTP_PORT": str(http),
            "RAY_SERVE_WORKER_PROXY_GRPC_PORT": str(grpc),
        }
        words = [str(_BIN / "ray"), "start", "--block", "--disable-usage-stats", "--num-cpus=2"]
        words += [f"--object-store-memory={_STORE_BYTES}", "--min-worker-port=0", "--max-worker-port=0"]
        words += [f"--{name}={free_port()}" for name in _PORTS]
        words += [f"--resources={json.dumps(resources)}"]
        if head is None:
            words += ["--head", f"--port={self.gcs}", "--include-dashboard=false"]
            words += [f"--ray-client-server-port={free_port()}", f"--temp-dir={directory.parent / 'ray'}"]
        else:
            words += [f"--address=127.0.0.1:{head}"]
        self._log = directory / "log"
        with self._log.open("w") as log:
            self._process = subprocess.Popen(words, env=environment, stdout=log, stderr=log)
        wait_until(self._has_started, f"node {directory.name} has started", _STARTING_SECONDS)

    def _has_started(self) -> bool:
        said = self._log.read_text()
        assert self._process.poll() is None, said
        return "Ray runtime started" in said

    def kill(self) -> None:
        """Kill all of Ray's processes of the node at once, and wait until what its replicas have started has ended."""
        own = psutil.Process(self._process.pid)
        found = own.children(recursive=True)
        started = [process for process in found if _is_nnhal(process)]
        for process in [own, *(process for process in found if process not in started)]:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        self._process.wait()
        _, left = psutil.wait_procs(started, 60)
        assert not left, f"{left} run still, though their supervisor is gone"

    def __enter__(self) -> RayNode:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self.kill()


@dataclass
class RayCluster:
    """A cluster, its nodes, and what is deployed on it."""

    directory: Path
    head: RayNode
    driver: subprocess.Popen[str]

    def ask(self, what: str) -> Any:
        assert self.driver.stdin is not None and self.driver.stdout is not None
        self.driver.stdin.write(f"{what}\n")
        self.driver.stdin.flush()
        return json.loads(self.driver.stdout.readline())

    def deploy(self, **arguments: object) -> None:
        """Deploy the application with other arguments than those of the configuration file, and wait until it runs."""
        self.begin_to_deploy(**arguments)
        wait_until(self._runs, "the application runs", _STARTING_SECONDS)

    def begin_to_deploy(self, **arguments: object) -> None:
        config = yaml.safe_load(CONFIG.read_text())
        config["http_options"]["host"] = _NOT_LOOPBACK
        config["http_options"]["port"], config["grpc_options"]["port"] = self.head.http, self.head.grpc
        (application,) = config["applications"]
        application["args"] = {"insecure": True, "dashboard": False, **arguments}  # two would have one port
        path = self.directory / "serve.yaml"
        path.write_text(yaml.safe_dump(config))
        words = [str(_BIN / "serve"), "run", f"--address=127.0.0.1:{self.head.gcs}", "--non-blocking", str(path)]
        done = subprocess.run(
            words,
            env=environment_of(self.directory, self.directory / TOKEN),
            capture_output=True,
            text=True,
            timeout=_STARTING_SECONDS,
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def replicas(self, deployment: str = "Host") -> list[dict[str, Any]]:
        return [
            replica
            for replica in self.ask("replicas")
            if replica["deployment"] == deployment and replica["state"] == "RUNNING"
        ]

    def counts(self, model: str) -> dict[str, int]:
        """Return how many requests for a model the framework of each replica has counted, by the replica's id."""
        return {replica["id"]: _count(directory_of(replica["pid"]), model) for replica in self.replicas()}

    def _runs(self) -> bool:
        state = self.ask("application")
        assert state.get("status") != "DEPLOY_FAILED", state
        return bool(state.get("status") == "RUNNING")


@contextmanager
def ray_cluster() -> Iterator[RayCluster]:
    """Run a cluster of one node, which has the resource ``npu`` once."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="nnray-", ignore_cleanup_errors=True)))
        new_token(directory / TOKEN)
        head = stack.enter_context(RayNode(directory / "head", None, free_port(), free_port(), {"npu": 1}))
        words = [sys.executable, "-m", _DRIVER, f"127.0.0.1:{head.gcs}"]
        driver = subprocess.Popen(
            words,
            env=environment_of(directory, directory / TOKEN),
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        stack.enter_context(driver)
        yield RayCluster(directory, head, driver)


@contextmanager
def worker_node(cluster: RayCluster, name: str) -> Iterator[RayNode]:
    """Add a node with the resource ``npu`` once."""
    with RayNode(cluster.directory / name, cluster.head.gcs, free_port(), free_port(), {"npu": 1}) as node:
        yield node


def environment_of(directory: Path, token: Path) -> dict[str, str]:
    """The environment of a node: HAProxy's ports would be the same for all nodes of a host."""
    ours = {
        name: value for name, value in environment(directory, token, _NOT_LOOPBACK).items() if name[:7] != "PYTEST_"
    }
    return ours | {
        "RAY_SERVE_HAPROXY_METRICS_PORT": str(free_port()),
        "RAY_SERVE_HAPROXY_STATS_PORT": str(free_port()),
        **_replica_ports("HTTP"),
        **_replica_ports("GRPC"),
    }


def directory_of(replica: int) -> Path:
    words = next(words for each in psutil.Process(replica).children() if "nnhal_tools" in (words := each.cmdline()))
    return Path(words[words.index("--directory") + 1])


def _count(directory: Path, model: str) -> int:
    with tritonclient.grpc.InferenceServerClient(f"unix:{directory / 'framework/inference.sock'}") as client:
        (found,) = client.get_inference_statistics(model).model_stats
        return int(found.inference_stats.success.count)


def _replica_ports(protocol: str) -> dict[str, str]:
    """Return where replicas listen: gRPC lets two processes of a host listen at one port, and each would get half."""
    first = free_port()
    return {
        f"RAY_SERVE_DIRECT_INGRESS_MIN_{protocol}_PORT": str(first),
        f"RAY_SERVE_DIRECT_INGRESS_MAX_{protocol}_PORT": str(first + 20),
    }


def _is_nnhal(process: psutil.Process) -> bool:
    try:
        return any(word.startswith("nnhal_") for word in process.cmdline())
    except psutil.NoSuchProcess:
        return True
