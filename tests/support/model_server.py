"""Framework processes that serve the protocol, over real devices and a repository on disk."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from nnhal.endpoint import Endpoint
from nnhal_hosting.supervision import Child
from nnhal_hosting.zygote import Zygote
from tests.support.processes import WARM, device_process
from tests.support.waiting import wait_until

DRIVERS = ("cpu_acc", "cpu_ref")
_ADDRESS = re.compile(r"^(grpc|http|metrics): (\S+)$", re.MULTILINE)


@dataclass(frozen=True)
class Devices:
    """Device processes: their endpoints and process ids, by driver."""

    endpoints: Mapping[str, Endpoint]
    pids: Mapping[str, int]


@dataclass(frozen=True)
class Served:
    """A framework process: its addresses, and its repository."""

    child: Child
    grpc: str
    http: str
    repository: Path
    endpoint: Endpoint

    @property
    def pid(self) -> int:
        """The id of the framework's process."""
        return self.child.pid

    @property
    def port(self) -> int:
        return int(self.http.rpartition(":")[2])


@contextmanager
def devices() -> Iterator[Devices]:
    """Run processes of cpu_acc and cpu_ref."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="nnhal-")))
        started = {name: stack.enter_context(device_process(name, directory)) for name in DRIVERS}
        yield Devices(
            {name: endpoint for name, (_, endpoint) in started.items()},
            {name: child.pid for name, (child, _) in started.items()},
        )


def arguments(directory: Path, repository: Path, over: Devices, *options: str) -> list[str]:
    """Return the command line of a framework that loads all models and listens on free ports.

    Clients may load and unload models, unless ``options`` have another control mode.
    """
    given = ["--endpoint", str(directory)]
    for name, endpoint in over.endpoints.items():
        given += ["--device", f"{name}={endpoint.directory}"]
    given += ["--model-repository", str(repository)]
    if "--model-control-mode" not in options:
        given += ["--model-control-mode", "explicit", "--load-model", "*"]
    return [*given, "--http-port", "0", "--grpc-port", "0", "--metrics-port", "0", *options]


@contextmanager
def model_server(over: Devices, repository: Path, *options: str, zygote: Zygote | None = WARM) -> Iterator[Served]:
    """Run a framework until the context ends; it is ready when the context begins."""
    with tempfile.TemporaryDirectory(prefix="nnhal-") as directory:
        endpoint = Endpoint(Path(directory) / "framework", "framework")
        child = Child("nnhal_service", arguments(endpoint.directory, repository, over, *options), zygote=zygote)
        try:
            child.wait_until_ready()
            wait_until(lambda: {"grpc", "http"} <= addresses(child).keys(), "the addresses are printed")
            found = addresses(child)
            yield Served(child, found["grpc"], found["http"], repository, endpoint)
        finally:
            child.stop()


def addresses(child: Child) -> dict[str, str]:
    return dict(_ADDRESS.findall(child.said()))
