"""``python -m tests.testbed``: build the images, start docker-compose.yml, test it, and take it all down again.

A Docker engine that runs is used. Without one, root gets an engine of its own for the time, of Debian's packages.
Images come from a registry if one can be reached, else from Debian's archive and PyPI. What it installs with apt-get
stays, nothing else does.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import TypeVar

from tests.support.ports import free_port
from tests.support.waiting import wait_until
from tests.testbed.compose import PROJECT_VARIABLE, ROOT, ComposeProject, Container, ContainerCommandError
from tests.testbed.engine import NoEngineError, docker_engine
from tests.testbed.images import IMAGES, base_image, remove_images, wheels

_PROJECT = "nnhal-testbed"
_PORTS = ("NNHAL_HTTP_PORT", "NNHAL_GRPC_PORT", "NNHAL_DASHBOARD_PORT")
_HEALTHY_SECONDS = 180.0
T = TypeVar("T")


class Steps:
    """Says what is being done, and in the end how long each step took."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        print(f"testbed: {name}", flush=True)
        started = time.monotonic()
        try:
            yield
        finally:
            self._seconds[name] = time.monotonic() - started

    @contextmanager
    def around(self, name: str, context: AbstractContextManager[T]) -> Iterator[T]:
        """Enter and leave a context, and time both."""
        with ExitStack() as stack:
            with self.step(name):
                entered = stack.enter_context(context)
            try:
                yield entered
            finally:
                with self.step(f"end of {name}"):
                    stack.close()

    def show(self) -> None:
        for name, seconds in [*self._seconds.items(), ("all", sum(self._seconds.values()))]:
            print(f"{seconds:7.1f} s  {name}", flush=True)


def main() -> int:
    """Run the steps. Returns the status of pytest, or 1 if there are no containers to test."""
    parser = argparse.ArgumentParser("python -m tests.testbed", description=__doc__)
    parser.add_argument("--engine", type=Path, help="where an engine of its own keeps its images for the next time")
    parser.add_argument("pytest", nargs="*", help="arguments for pytest, after --")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, _interrupt)
    steps = Steps()
    try:
        return _run(steps, arguments.engine, arguments.pytest)
    except (NoEngineError, ContainerCommandError) as error:
        print(f"testbed: {error}", file=sys.stderr)
        return 1
    finally:
        steps.show()


def _run(steps: Steps, root: Path | None, arguments: Sequence[str]) -> int:
    project = ComposeProject(_PROJECT)
    with steps.around("engine", docker_engine(root)) as host:
        if host:
            os.environ["DOCKER_HOST"] = host
        with steps.step("base image"):
            base = base_image()
        os.environ.update({**IMAGES, "NNHAL_BASE": base, **{name: str(free_port()) for name in _PORTS}})
        with steps.around("packages", wheels()), steps.step("images"):
            project.run("--profile", "test", "build")
        try:
            with steps.around("services", _up(project)), steps.step("tests"):
                return _tests(arguments)
        finally:
            if not host:
                remove_images()


@contextmanager
def _up(project: ComposeProject) -> Iterator[None]:
    """Start the services, and remove them with all that they have stored. Raises ContainerCommandError."""
    try:
        project.run("up", "--detach", "--no-build")
        wait_until(lambda: _is_healthy(project), "the dashboard, which is the last, is healthy", _HEALTHY_SECONDS)
        yield
    except BaseException:
        print(project.run("logs", "--tail", "20"), file=sys.stderr)
        raise
    finally:
        project.run("--profile", "test", "down", "--volumes", "--remove-orphans")
        if left := project.leftovers():
            raise ContainerCommandError(f"'down' has left {left}")


def _is_healthy(project: ComposeProject) -> bool:
    return any(Container(identifier).healthy for identifier in project.containers("dashboard"))


def _tests(arguments: Sequence[str]) -> int:
    command = [sys.executable, "-m", "pytest", "-m", "testbed", "--durations", "15", "tests/testbed", *arguments]
    environment = os.environ | {PROJECT_VARIABLE: _PROJECT}
    return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
