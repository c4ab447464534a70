"""Acts of an operator on the processes of a testbed."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from pydantic import ValidationError

from nnhal.errors import HalError, general_failure, invalid_argument
from nnhal.v1 import supervisor_pb2 as wire
from nnhal_hosting.supervision import StartError
from nnhal_tools.up.drains import Drains
from nnhal_tools.up.testbed import Testbed, TestbedProcess
from nnhal_tools.up.topology import FRAMEWORK, DeviceEntry, first_problem, is_taken
from nnhal_tools.up.watched import DrainState

_DRAIN_SECONDS = 10.0
_LONGEST_DRAIN_SECONDS = 3600.0
_LOOK_SECONDS = 0.1


class ProcessCommands:
    """Starts, stops, kills and drains processes; adds and removes devices. Safe to use from several threads.

    Of what takes a while, one thing is done with a process at a time. Each method raises INVALID_ARGUMENT for a wrong
    argument, such as an unknown name, and GENERAL_FAILURE with the reason if it cannot be done.
    """

    def __init__(self, testbed: Testbed) -> None:
        self._testbed = testbed
        self._drains = Drains(testbed.framework, testbed.admin_key)
        self._closing = threading.Event()

    def close(self) -> None:
        """Wait for no drain any more."""
        self._closing.set()

    def start(self, name: str) -> TestbedProcess:
        """Start a process that was stopped or waits for its next start, or have one that drains take work again."""
        process = self._testbed.process(name)
        with process.command("started"):
            if process.is_running and process.drain is DrainState.OPEN:
                general_failure(f"{name} runs already, as process {process.pid}")
            if not process.is_running:
                self._started(process)
            self._open(process)
        return process

    def stop(self, name: str, drain: bool) -> None:
        """Stop a process until it is started. With ``drain``, its work ends first."""
        process = self._testbed.process(name)
        if process.is_stopped:
            general_failure(f"{name} is stopped already")
        if drain:
            self._drain_or_fail(process)
        with process.command("stopped"):
            process.stop()

    def restart(self, name: str, drain: bool) -> TestbedProcess:
        """Stop a process and start it. With ``drain``, its work ends first."""
        process = self._testbed.process(name)
        if drain and process.is_running:
            self._drain_or_fail(process)
        with process.command("restarted"):
            if not process.is_stopped:
                process.stop()
            self._started(process)
            self._open(process)
        return process

    def kill(self, name: str, number: int) -> int:
        """Send a signal, SIGKILL if it is 0, and return the process that got it."""
        if number and number not in signal.valid_signals():
            invalid_argument(f"signal {number}, expected one of this system, such as 9 for SIGKILL")
        return self._testbed.process(name).kill(number or signal.SIGKILL)

    def drain(self, name: str, seconds: float) -> wire.DrainProcessResponse:
        """Have a device or the framework take no new work, wait until it is idle, and say what is left.

        It drains on after ``seconds``, 10 if they are 0.
        """
        process = self._testbed.process(name)
        if not 0 <= seconds <= _LONGEST_DRAIN_SECONDS:
            invalid_argument(f"{seconds} seconds to drain, expected 0 to {_LONGEST_DRAIN_SECONDS:.0f}")
        return self._drain(process, seconds or _DRAIN_SECONDS)

    def add_device(self, entry: wire.StartDeviceRequest) -> TestbedProcess:
        """Start one more device, and have the framework know it."""
        process = self._testbed.add_device(_checked(entry))
        try:
            with process.command("started"):
                self._started(process)
                if self._testbed.process(FRAMEWORK).is_running:  # otherwise it is told at its start
                    assert process.identity.directory is not None
                    self._drains.add_device(process.name, process.identity.directory)
        except BaseException:
            with _reported():
                process.forget()
            self._testbed.forget_device(process.name)
            raise
        self._testbed.journal.add(process.name, "added", "the framework knows the device")
        return process

    def remove_device(self, name: str) -> None:
        """Stop a device that was added, and have the framework forget it."""
        process = self._testbed.process(name)
        if not process.identity.is_added:
            general_failure(f"{name} is in the topology; only a device that was started later can be removed")
        with process.command("removed"):
            if self._testbed.process(FRAMEWORK).is_running:
                self._drains.remove_device(name)
            process.forget()
            self._testbed.forget_device(name)
        self._testbed.journal.add(name, "removed", "it belongs to the testbed no more")

    def framework_started(self) -> None:
        """Tell a framework that was started again which devices it is to leave alone."""
        self._testbed.process(FRAMEWORK).drain = DrainState.OPEN
        for process in self._testbed.processes:
            if process.drain is not DrainState.OPEN:
                try:
                    self._drains.leave_alone(process.name)
                except HalError as error:
                    self._testbed.journal.say(process.name, f"is used again: {error.message}")
                    process.drain = DrainState.OPEN

    def _started(self, process: TestbedProcess) -> None:
        with _reported():
            process.start()
        if process.name == FRAMEWORK:
            self.framework_started()

    def _open(self, process: TestbedProcess) -> None:
        """Have a process that was drained take work again."""
        if process.drain is DrainState.OPEN:
            return
        if process.name == FRAMEWORK:
            self._drains.drain_framework(False)
        elif self._testbed.process(FRAMEWORK).is_running:  # when it starts, it knows of no drain
            self._drains.undrain_device(process.name)
        process.drain = DrainState.OPEN

    def _drain_or_fail(self, process: TestbedProcess) -> None:
        left = self._drain(process, _DRAIN_SECONDS)
        if left.executions or left.models:
            models = f", and these models still use it: {', '.join(left.models)}" if left.models else ""
            general_failure(
                f"{process.name} is not idle after {_DRAIN_SECONDS:.0f} s: {left.executions} executions run or wait"
                f"{models}; it drains on, until it is started or stopped"
            )

    def _drain(self, process: TestbedProcess, seconds: float) -> wire.DrainProcessResponse:
        if process.identity.kind not in ("device", FRAMEWORK):
            invalid_argument(f"{process.name} has no work that could end; expected a device or the framework")
        if not process.is_running:
            general_failure(f"{process.name} does not run, so it cannot be drained")
        left = self._drainage(process)
        process.drain = DrainState.DRAINING
        until = time.monotonic() + seconds
        while (left.executions or left.models) and time.monotonic() < until:
            if self._closing.wait(_LOOK_SECONDS):
                break
            if process.drain is DrainState.OPEN or not process.is_running:
                general_failure(f"{process.name} was started, was stopped or died while it drained")
            left = self._drainage(process)
        if not left.executions and not left.models:
            process.drain = DrainState.DRAINED
            self._testbed.journal.add(process.name, "drained", "takes no new work and has none")
        return left

    def _drainage(self, process: TestbedProcess) -> wire.DrainProcessResponse:
        """Have a process take no new work, and say what it has."""
        if process.name == FRAMEWORK:
            return self._drains.drain_framework(True)
        return self._drains.drain_device(process.name, self._testbed.endpoint(process.name))


@contextmanager
def _reported() -> Iterator[None]:
    """Say why a process did not start."""
    try:
        yield
    except (OSError, StartError) as error:
        general_failure(str(error))


def _checked(request: wire.StartDeviceRequest) -> DeviceEntry:
    """Check the content of a topology file. Raises INVALID_ARGUMENT if it could not."""
    for name, value in request.options.items():
        if "\0" in value:
            invalid_argument(f"a device to start: options.{name}: {value!r}, expected a text without a zero byte")
    needed = "" if request.endpoint or request.command else "driver"
    given = {
        "driver": request.driver,
        "name": request.name,
        "endpoint": request.endpoint,
        "command": list(request.command),
        "workers": request.workers,
        "threads": request.threads,
        "options": dict(request.options),
    }
    try:
        entry = DeviceEntry.model_validate({name: value for name, value in given.items() if value or name == needed})
    except ValidationError as error:
        invalid_argument(f"a device to start: {first_problem(error, 'the request')}")
    if is_taken(entry.title):
        invalid_argument(f"device name {entry.title!r}: expected one that is not a process of another kind")
    return entry
