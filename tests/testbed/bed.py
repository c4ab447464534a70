"""The containers of docker-compose.yml while they run: from this host, and from containers beside them."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.waiting import wait_until
from tests.testbed.compose import ComposeProject, Container, docker

DEVICES = ("ethos_n", "ethos_u", "mlip", "gpu_acc", "cpu_acc", "cpu_ref")
"""The devices of the file, in the framework's order of preference."""
DIRECTORY = "/run/nnhal"
KEY = "/secrets/operators/admin.key"
FRAMEWORK = f"{DIRECTORY}/framework"
_INSIDE = Path(__file__).parent / "inside"
_WHOLE_SECONDS = 120.0


class Beside:
    """A program of ``tests/testbed/inside`` in a container, which answers each line with a JSON object."""

    def __init__(self, container: Container, script: str, *arguments: str) -> None:
        command = ["docker", "exec", "--interactive", container.id, *inside(script), *arguments]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self) -> dict[str, Any]:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, f"the program has ended with status {self._process.wait()}"
        return dict(json.loads(line))

    def __enter__(self) -> Beside:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(60)
        self._process.stdout.close()


@dataclass(frozen=True, slots=True)
class ContainerBed:
    """A project that is up."""

    project: ComposeProject
    image: str
    """Of devices, framework and dashboard."""
    client: Container
    """Shares the directory of sockets with the others, and nothing else: a client on this host."""
    operator: Container
    """Has the operator's key too."""
    observer: Beside
    tokens: Mapping[str, str] = field(repr=False)
    """By role."""

    def address(self, service: str, port: int) -> str:
        """Return where a port of a service is published, such as ``127.0.0.1:8000``."""
        (published,) = self.project.container(service).inspected["NetworkSettings"]["Ports"][f"{port}/tcp"]
        return f"{published['HostIp']}:{published['HostPort']}"

    def bearer(self, role: str) -> dict[str, str]:
        """Return the header of a role's token, which is also its metadata."""
        return {"authorization": f"Bearer {self.tokens[role]}"}

    def in_client(self, script: str, *arguments: str) -> Any:
        """Run a program of ``tests/testbed/inside`` in the client's container and return the JSON that it prints."""
        return json.loads(self.client.run(*inside(script), *arguments))

    def nnhal(self, *arguments: str) -> str:
        """Run a command of nnhal as the operator and return what it prints."""
        return self.operator.run("nnhal", *arguments, "--directory", DIRECTORY, "--admin-key", KEY)

    def observed(self) -> dict[str, Any]:
        """Return what the operator sees: ``processes`` by name, and the ``framework``."""
        return self.observer.ask()

    def standings(self) -> dict[str, dict[str, Any]]:
        """Return how the framework uses each device; nothing if it does not answer."""
        framework = self.observed()["framework"]
        return {device["name"]: device for device in framework["devices"]} if framework else {}

    def is_whole(self) -> bool:
        """Return whether the framework has all devices and all models, each with its own plan."""
        framework = self.observed()["framework"]
        if not framework or not framework["ready"]:
            return False
        available = {
            device["name"] for device in framework["devices"] if device["available"] and not device["draining"]
        }
        return available >= set(DEVICES) and not any(model["missing"] for model in framework["models"])

    def wait_until_whole(self) -> None:
        """Wait until what a test before has broken is there again."""
        wait_until(self.is_whole, "the testbed is whole", _WHOLE_SECONDS)


def inside(script: str) -> Sequence[str]:
    """Return the command that runs a program of ``tests/testbed/inside``, which no container needs to have."""
    return ("python3", "-c", (_INSIDE / script).read_text())


@contextmanager
def bed_of(project: ComposeProject) -> Iterator[ContainerBed]:
    """Start a client and an operator beside a project that is up. They end with the context."""
    image = project.container("framework").inspected["Config"]["Image"]
    shared = ["--network=none", "--volume", f"{project.name}_run:{DIRECTORY}", *_vectors()]
    secret = [f"--volume={project.name}_{name}:/secrets/{name}:ro" for name in ("operators", "clients")]
    with ExitStack() as stack:
        client = stack.enter_context(beside(image, *shared))
        operator = stack.enter_context(beside(image, *shared, *secret))
        files = {"view": "clients/view", "infer": "clients/infer", "admin": "operators/admin"}
        tokens = {role: operator.run("cat", f"/secrets/{file}.token").strip() for role, file in files.items()}
        observer = stack.enter_context(Beside(operator, "observe.py", DIRECTORY, KEY))
        yield ContainerBed(project, image, client, operator, observer, tokens)


def _vectors() -> list[str]:
    folder = os.environ.get("NNHAL_CONFORMANCE")
    return ["--volume", f"{folder}:/vectors:ro"] if folder else []


@contextmanager
def beside(image: str, *options: str) -> Iterator[Container]:
    """A container that waits for commands, with the rights of those of the file."""
    rights = ["--user=10001:10001", "--read-only", "--cap-drop=ALL", "--security-opt=no-new-privileges"]
    waits = ["--entrypoint=sleep", image, "infinity"]
    identifier = docker("run", "--detach", "--tmpfs=/tmp", *rights, *options, *waits).strip()
    try:
        yield Container(identifier)
    finally:
        docker("rm", "--force", "--volumes", identifier)
