"""Running a topology: starting its processes, restarting those that die, and ending them all."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import TracebackType

from nnhal.endpoint import Endpoint
from nnhal_hosting.keeper import Keeper
from nnhal_hosting.supervision import Child, stop_all
from nnhal_tools.up.topology import FRAMEWORK, DeviceEntry, Topology

_LOADING_SECONDS = 600.0
"""Time that the framework has to load its models."""


class Testbed:
    """The processes of a topology under one directory. Use as a context.

    ``tell`` is called with a line whenever a process starts, dies or is restarted. The processes of a testbed end with
    the process that holds it, however that ends.
    """

    __test__ = False  # not a test class, though pytest takes the name for one

    def __init__(self, topology: Topology, directory: Path, tell: Callable[[str], None] = lambda _: None) -> None:
        self._topology = topology
        self._directory = directory
        self._tell = tell
        self._keepers: dict[str, Keeper] = {}

    @property
    def framework(self) -> Path:
        """The directory of the framework process."""
        return self._directory / FRAMEWORK

    def endpoint(self, device: str) -> Endpoint:
        """The endpoint of a device."""
        return Endpoint(self._directory / device)

    def pid(self, name: str) -> int:
        """The process of a device, or of the framework."""
        return self._keepers[name].child.pid

    def __enter__(self) -> Testbed:
        try:
            for entry in self._topology.device:
                self._launch(entry.title, partial(self._device, entry))
            for entry in self._topology.device:
                self._keepers[entry.title].keep()
                self._tell(f"{entry.title}: driver {entry.driver}, process {self.pid(entry.title)}")
            self._launch(FRAMEWORK, self._framework)
            self._keepers[FRAMEWORK].keep(_LOADING_SECONDS)
            self._tell(f"{FRAMEWORK}: process {self.pid(FRAMEWORK)}")
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def _launch(self, name: str, launch: Callable[[], Child]) -> None:
        self._keepers[name] = Keeper(name, launch, self._tell)

    def _stop(self) -> None:
        stop_all([keeper.leave() for keeper in self._keepers.values()])

    def _framework(self) -> Child:
        devices = [f"--device={e.title}={self._directory / e.title}" for e in self._topology.device]
        return Child("nnhal_service", ["--endpoint", str(self.framework), *devices, *self._topology.framework_options])

    def _device(self, entry: DeviceEntry) -> Child:
        limits = ["--workers", str(entry.workers), "--threads", str(entry.threads)]
        return Child(
            "nnhal_devices",
            [entry.driver, "--endpoint", str(self._directory / entry.title), *limits, *entry.driver_options],
        )
