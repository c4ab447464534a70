"""Running a topology: starting its processes, restarting those that die, and ending them all."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import TracebackType

from nnhal.endpoint import Endpoint
from nnhal.errors import general_failure, invalid_argument
from nnhal.near_names import there_are
from nnhal.threads import BriefThread
from nnhal_hosting.admin_keys import new_admin_key
from nnhal_hosting.extras import missing_modules
from nnhal_hosting.supervision import HANG_SECONDS, Child, StartError, stop_all
from nnhal_hosting.zygote import Zygote
from nnhal_tools.up.device_child import device_child
from nnhal_tools.up.fault_options import NO_FAULTS, FaultOptions
from nnhal_tools.up.journal import ProcessJournal
from nnhal_tools.up.logs import LogTail
from nnhal_tools.up.running import RunningDevice
from nnhal_tools.up.topology import DASHBOARD, FOREIGN, FRAMEWORK, DeviceEntry, Topology
from nnhal_tools.up.watched import ProcessIdentity, WatchedProcess

_LOADING_SECONDS = 600.0
"""Time that the framework has to load its models."""
_STARTING_SECONDS = 60.0
"""Time that other processes have until they serve."""
TestbedProcess = WatchedProcess | RunningDevice


class Testbed:
    """The processes of a topology under one directory. Use as a context.

    ``tell`` is called with a line whenever a process starts, dies or is restarted. The processes of a testbed end with
    the process that holds it, however that ends; a device that runs already goes on. Safe to use from several threads.
    """

    __test__ = False  # not a test class, though pytest takes the name for one

    def __init__(
        self,
        topology: Topology,
        directory: Path,
        print_line: Callable[[str], None] = lambda _: None,
        faults: FaultOptions = NO_FAULTS,
        allow_recording: bool = False,
        zygote: Zygote | None = None,
        hang_seconds: float = HANG_SECONDS,
    ) -> None:
        """``faults`` are those that the devices take; they may be recorded if ``allow_recording``.

        A given ``zygote`` forks the processes, and goes on when the testbed has ended. A process that gives no sign of
        life for ``hang_seconds`` is killed and started again; with 0 none is.
        """
        self._hang_seconds = hang_seconds
        self.directory = directory
        self.admin_key = new_admin_key()
        """What the admin services of the processes ask for."""
        self._faults = faults
        self._recording = ["--allow-recording"] if allow_recording else []
        self._zygote = zygote or Zygote(_imported_by(topology))
        self._own_zygote = self._zygote if zygote is None else None
        self.journal = ProcessJournal(print_line)
        self.logs = LogTail()
        self._topology = topology
        self._lock = threading.Lock()
        self._closed = False
        self._devices = {entry.title: self._device(entry, is_added=False) for entry in topology.device}
        self._framework = self._process(
            ProcessIdentity(FRAMEWORK, FRAMEWORK, directory=self.framework),
            "nnhal_service",
            lambda: ["--endpoint", str(self.framework), *self._device_options(), *topology.framework_options],
            _LOADING_SECONDS,
        )
        history = directory / "dashboard.history"  # so that a dashboard that is started again has its charts
        words = ["--directory", str(directory), "--history", str(history), *topology.dashboard_options]
        shown = self._process(ProcessIdentity(DASHBOARD, DASHBOARD), "nnhal_dashboard", lambda: words)
        self._dashboard = shown if topology.dashboard is not None else None

    @property
    def framework(self) -> Path:
        """The directory of the framework process."""
        return self.directory / FRAMEWORK

    @property
    def processes(self) -> list[TestbedProcess]:
        """The devices in order of preference, the framework, and the dashboard if there is one."""
        with self._lock:
            devices = list(self._devices.values())
        return [*devices, self._framework, *([] if self._dashboard is None else [self._dashboard])]

    def endpoint(self, device: str) -> Endpoint:
        """The endpoint of a device. Raises INVALID_ARGUMENT for an unknown name."""
        directory = self.process(device).identity.directory
        assert directory is not None
        return Endpoint(directory)

    def pid(self, name: str) -> int:
        """The process of a device, or of the framework. Raises INVALID_ARGUMENT for an unknown name."""
        return self.process(name).pid

    def process(self, name: str) -> TestbedProcess:
        """The process of a name. Raises INVALID_ARGUMENT for an unknown one."""
        processes = {process.name: process for process in self.processes}
        if name not in processes:
            invalid_argument(f"no process is called {name!r}; {there_are(name, processes)}")
        return processes[name]

    def add_device(self, entry: DeviceEntry) -> TestbedProcess:
        """Add a device, which the caller starts. The framework knows it when it is started again.

        Raises INVALID_ARGUMENT if its name is taken, and GENERAL_FAILURE if the testbed ends.
        """
        added = self._device(entry, is_added=True)
        with self._lock:
            if added.name in self._devices:
                invalid_argument(f"device name {added.name!r}: expected another than {', '.join(self._devices)}")
            if self._closed:
                general_failure(f"{added.name} is not started: the supervisor ends")
            self._devices[added.name] = added
        return added

    def forget_device(self, name: str) -> None:
        """Forget a device, which has been stopped."""
        with self._lock:
            self._devices.pop(name, None)

    def __enter__(self) -> Testbed:
        if missing := missing_modules("devices", "service", *([] if self._dashboard is None else ["dashboard"])):
            raise StartError(missing)
        try:
            devices = list(self._devices.values())
            for process in devices:
                process.launch()
            for process in devices:
                process.await_ready()
            self._framework.launch()
            if self._dashboard is not None:
                BriefThread(partial(self._show, self._dashboard), "start-dashboard").start()
            self._framework.await_ready()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """End all processes. None is started again; starts that are waited for fail."""
        with self._lock:
            self._closed = True
        children = [process.leave() for process in self.processes]
        stop_all([child for child in children if child is not None])
        if self._own_zygote is not None:
            self._own_zygote.close()

    def _show(self, dashboard: WatchedProcess) -> None:
        """Start the dashboard. Without one, everything else goes on."""
        try:
            dashboard.start()
        except (OSError, StartError) as error:
            if self._closed:
                return
            is_reported = isinstance(error, StartError) and error.is_reported
            self.journal.say(dashboard.name, "goes without" if is_reported else f"goes without: {error}")

    def _device(self, entry: DeviceEntry, is_added: bool) -> TestbedProcess:
        if entry.directory is not None:
            return RunningDevice(
                ProcessIdentity(entry.title, "device", entry.driver, entry.directory, is_added), self.journal
            )
        endpoint = Endpoint(self.directory / entry.title)
        faults = self._faults.words()

        def launch(heard: Callable[[str], None]) -> Child:
            options = [*self._recording, *faults()]
            return device_child(entry, endpoint, options, self.admin_key, heard, self._zygote, self._hang_seconds)

        identity = ProcessIdentity(entry.title, "device", entry.driver, endpoint.directory, is_added)
        return WatchedProcess(identity, launch, self.journal, self.logs.add, _STARTING_SECONDS)

    def _device_options(self) -> list[str]:
        with self._lock:
            devices = list(self._devices.values())
        return [f"--device={device.name}={device.identity.directory}" for device in devices]

    def _process(
        self, identity: ProcessIdentity, module: str, words: Callable[[], list[str]], seconds: float = _STARTING_SECONDS
    ) -> WatchedProcess:
        def launch(heard: Callable[[str], None]) -> Child:
            return Child(
                module,
                words(),
                admin_key=self.admin_key,
                heard=heard,
                zygote=self._zygote,
                hang_seconds=self._hang_seconds,
            )

        return WatchedProcess(identity, launch, self.journal, self.logs.add, seconds)


def _imported_by(topology: Topology) -> list[str]:
    """Return what devices and framework import before they serve, and the framework with its first model of either
    format.

    Drivers of other packages are left to their devices.
    """
    drivers = dict.fromkeys(entry.driver for entry in topology.device if entry.driver != FOREIGN)
    modules = ["nnhal_devices.host.process", *(f"nnhal_devices.{driver}.driver" for driver in drivers)]
    modules += [
        "nnhal_service.process",
        "nnhal_frontends.onnx.file_apart",
        "nnhal_frontends.onnx.whole_file",
        "nnhal_frontends.tflite",
    ]
    return [*modules, "nnhal_service.model_server"] if "model_repository" in topology.framework else modules
