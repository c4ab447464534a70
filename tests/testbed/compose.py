"""``docker compose``, of either generation, and what the engine says of its containers."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from tests.testbed.engine import NoEngineError

ROOT = Path(__file__).parents[2]
FILE = ROOT / "docker-compose.yml"
PROJECT_VARIABLE = "NNHAL_TESTBED"
"""The variable of the environment that names the project that tests look at."""
_COMMAND_SECONDS = 600.0


class ContainerCommandError(Exception):
    """A command of Docker failed. The message has what it said."""


def docker(*arguments: str, timeout: float = _COMMAND_SECONDS) -> str:
    """Run ``docker`` and return its output. Raises ContainerCommandError if it fails."""
    return _output(["docker", *arguments], os.environ, timeout)


@dataclass(frozen=True)
class ComposeProject:
    """The services of one or more files, as one project."""

    name: str
    files: tuple[Path, ...] = (FILE,)

    def run(self, *arguments: str, timeout: float = _COMMAND_SECONDS) -> str:
        """Run a command of Compose and return its output. Raises ContainerCommandError if it fails."""
        files = [argument for file in self.files for argument in ("--file", str(file))]
        command = [*self._program, "--project-name", self.name, *files, *arguments]
        # Compose 1.29 takes the classic builder then, which every engine has.
        return _output(command, os.environ | {"DOCKER_BUILDKIT": "0", "COMPOSE_DOCKER_CLI_BUILD": "0"}, timeout)

    def containers(self, service: str, running: bool = True) -> list[str]:
        of_service = f"--filter=label=com.docker.compose.service={service}"
        return docker("ps", "--quiet", "--no-trunc", *([] if running else ["--all"]), self._label, of_service).split()

    def container(self, service: str) -> Container:
        (identifier,) = self.containers(service)
        return Container(identifier)

    def leftovers(self) -> list[str]:
        commands = (["ps", "--all"], ["volume", "ls"], ["network", "ls"])
        return [name for command in commands for name in docker(*command, "--quiet", self._label).split()]

    @property
    def _label(self) -> str:
        return f"--filter=label=com.docker.compose.project={self.name}"

    @cached_property
    def _program(self) -> Sequence[str]:
        asked = subprocess.run(["docker", "compose", "version"], capture_output=True, check=False)
        if asked.returncode == 0:
            return ("docker", "compose")
        if shutil.which("docker-compose"):
            return ("docker-compose",)
        raise NoEngineError("there is neither 'docker compose' nor docker-compose")


@dataclass(frozen=True, slots=True)
class ContainerEvent:
    """Event of a container, as the engine has seen it."""

    action: str
    """Such as ``die``, ``oom`` and ``start``."""
    status: str
    """The exit status of one that has died, else empty."""


@dataclass(frozen=True, slots=True)
class Container:
    """A container of the engine."""

    id: str

    @property
    def inspected(self) -> dict[str, Any]:
        """Return what ``docker inspect`` says of it now."""
        (found,) = json.loads(docker("inspect", self.id))
        return dict(found)

    @property
    def state(self) -> dict[str, Any]:
        """Its state, such as ``Status``, ``Pid``, ``ExitCode`` and ``OOMKilled``."""
        return dict(self.inspected["State"])

    @property
    def pid(self) -> int:
        """Its first process, in the engine's PID namespace; 0 if it does not run."""
        return int(self.state["Pid"])

    @property
    def restarts(self) -> int:
        """Return how often the engine has started it again."""
        return int(self.inspected["RestartCount"])

    @property
    def healthy(self) -> bool:
        return bool(self.state.get("Health", {}).get("Status") == "healthy")

    @property
    def serves(self) -> bool:
        """Return whether it passes its health check at this moment. The engine asks only at times."""
        kind, *command = self.inspected["Config"]["Healthcheck"]["Test"]
        assert kind == "CMD", kind
        try:
            self.run(*command)
        except ContainerCommandError:
            return False
        return True

    def run(self, *command: str, timeout: float = 120.0) -> str:
        """Run a command inside and return its output. Raises ContainerCommandError if it fails."""
        return docker("exec", self.id, *command, timeout=timeout)

    def kill(self) -> None:
        """Send SIGKILL to its first process, which a supervisor sees as a death: 'docker kill' counts as a wish."""
        image = self.inspected["Config"]["Image"]
        command = ["--entrypoint=python3", image, "-c", f"import os; os.kill({self.pid}, {signal.SIGKILL})"]
        docker("run", "--rm", "--pid=host", "--network=none", "--user=0", *command)

    def events(self, since: float) -> list[ContainerEvent]:
        span = ["--since", f"{since:.3f}", "--until", f"{time.time():.3f}"]
        lines = docker("events", *span, "--filter", f"container={self.id}", "--format", "{{json .}}").splitlines()
        return [
            ContainerEvent(event["Action"], event["Actor"]["Attributes"].get("exitCode", ""))
            for event in map(json.loads, lines)
        ]

    def logs(self) -> str:
        done = subprocess.run(
            ["docker", "logs", self.id], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=True
        )
        return done.stdout


def _output(command: Sequence[str], environment: Mapping[str, str], timeout: float) -> str:
    done = subprocess.run(
        command, env=dict(environment), cwd=ROOT, capture_output=True, text=True, timeout=timeout, check=False
    )
    if done.returncode:
        said = (done.stdout[-2000:] + done.stderr[-4000:]).strip()
        raise ContainerCommandError(f"{' '.join(command)}: status {done.returncode}\n{said}")
    return done.stdout
