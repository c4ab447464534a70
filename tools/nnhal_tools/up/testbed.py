"""Running a topology: starting its processes, restarting those that die, and ending them all."""

from __future__ import annotations

import os
import select
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from nnhal.endpoint import Endpoint
from nnhal_hosting.supervision import Child, StartError, stop_all
from nnhal_tools.up.topology import FRAMEWORK, DeviceEntry, Topology

_FIRST_RESTART_SECONDS = 0.2
_LONGEST_RESTART_SECONDS = 10.0
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
        self._children: dict[str, Child] = {}
        self._lock = threading.Lock()
        self._stopping, self._stop = os.pipe2(os.O_CLOEXEC)
        self._watchers: list[threading.Thread] = []

    @property
    def framework(self) -> Path:
        """The directory of the framework process."""
        return self._directory / FRAMEWORK

    def endpoint(self, device: str) -> Endpoint:
        """The endpoint of a device."""
        return Endpoint(self._directory / device)

    def pid(self, name: str) -> int:
        """The process of a device, or of the framework."""
        with self._lock:
            return self._children[name].pid

    def __enter__(self) -> Testbed:
        try:
            for entry in self._topology.device:
                self._launch(entry.title, entry)
            for entry in self._topology.device:
                self._children[entry.title].wait_until_ready()
                self._tell(f"{entry.title}: driver {entry.driver}, process {self.pid(entry.title)}")
            self._launch(FRAMEWORK, None)
            self._children[FRAMEWORK].wait_until_ready(_LOADING_SECONDS)
            self._tell(f"{FRAMEWORK}: process {self.pid(FRAMEWORK)}")
        except BaseException:
            stop_all(list(self._children.values()))
            raise
        watched: list[tuple[str, DeviceEntry | None]] = [(entry.title, entry) for entry in self._topology.device]
        for name, device in [*watched, (FRAMEWORK, None)]:
            watcher = threading.Thread(target=self._watch, args=(name, device), name=f"watch-{name}", daemon=True)
            watcher.start()
            self._watchers.append(watcher)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._stop)
        for watcher in self._watchers:
            watcher.join()
        stop_all(list(self._children.values()))
        os.close(self._stopping)

    def _launch(self, name: str, entry: DeviceEntry | None) -> None:
        endpoint = str(self._directory / name)
        if entry is None:
            devices = [f"--device={e.title}={self._directory / e.title}" for e in self._topology.device]
            child = Child("nnhal_service", ["--endpoint", endpoint, *devices, *self._topology.framework_options])
        else:
            limits = ["--workers", str(entry.workers), "--threads", str(entry.threads)]
            child = Child("nnhal_devices", [entry.driver, "--endpoint", endpoint, *limits])
        with self._lock:
            self._children[name] = child

    def _watch(self, name: str, entry: DeviceEntry | None) -> None:
        """Restart a process whenever it has died, with a longer delay each time that it dies soon after its start."""
        delay = _FIRST_RESTART_SECONDS
        while True:
            child, started = self._children[name], time.monotonic()
            if not self._await_death(child.pid):
                return
            status = child.process.wait()
            child.stop()
            lived = time.monotonic() - started
            delay = _FIRST_RESTART_SECONDS if lived > _LONGEST_RESTART_SECONDS else delay
            self._tell(f"{name}: process {child.pid} ended with status {status}; starting it again in {delay:.1f} s")
            if select.select([self._stopping], [], [], delay)[0]:
                return
            delay = min(2 * delay, _LONGEST_RESTART_SECONDS)
            self._launch(name, entry)
            try:
                self._children[name].wait_until_ready()
                self._tell(f"{name}: process {self.pid(name)}")
            except StartError as error:
                self._tell(str(error))

    def _await_death(self, pid: int) -> bool:
        """Wait until a process has died. Returns False if the testbed stops first."""
        try:
            handle = os.pidfd_open(pid)
        except ProcessLookupError:
            return True
        try:
            ready, _, _ = select.select([handle, self._stopping], [], [])
            return self._stopping not in ready
        finally:
            os.close(handle)
