"""Drains: processes of a testbed take no new work, and say if they have work still."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nnhal.endpoint import Endpoint
from nnhal.errors import HalError, MissingMethodError, NnhalError, general_failure
from nnhal.remote.admin import FrameworkAdmin, ProcessAdmin
from nnhal.v1 import supervisor_pb2 as wire

_CLIENT_NAME = "nnhal-supervisor"
_PATIENCE_SECONDS = 2.0


class Drains:
    """Drains devices and the framework of one testbed. Each method raises GENERAL_FAILURE if a process cannot be asked.

    A device is drained in the framework, which plans models again without it: the device itself goes on to serve what
    still uses it.
    """

    def __init__(self, framework: Path, key: str) -> None:
        self._framework = Endpoint(framework, "framework")
        self._key = key

    def drain_framework(self, drain: bool) -> wire.DrainProcessResponse:
        """Have the framework take no new work, or take work again; say what it has left."""
        with self._asked() as framework:
            return wire.DrainProcessResponse(executions=framework.drain(drain))

    def drain_device(self, name: str, device: Endpoint) -> wire.DrainProcessResponse:
        """Have models be planned without a device; say which still use it, and what it executes for the framework."""
        with self._asked() as framework:
            models = framework.drain_device(name)
            pid = framework.process().pid
        try:
            with _reached(name), ProcessAdmin(device, self._key, _CLIENT_NAME, _PATIENCE_SECONDS) as admin:
                process = admin.process()
        except MissingMethodError:  # it tells nobody what it executes; models without a step on it give it nothing
            return wire.DrainProcessResponse(models=models)
        theirs = {session.id for session in process.sessions if session.pid == pid}
        executions = sum(execution.session in theirs for execution in process.executions)
        return wire.DrainProcessResponse(executions=executions, models=models)

    def leave_alone(self, name: str) -> None:
        """Have models be planned without a device, whether it runs or not."""
        with self._asked() as framework:
            framework.drain_device(name)

    def undrain_device(self, name: str) -> None:
        """Have models use a device again."""
        with self._asked() as framework:
            framework.drain_device(name, drain=False)

    def add_device(self, name: str, directory: Path) -> None:
        """Have the framework know one more device, or use it again if it was told of one by that name at its start."""
        with self._asked() as framework:
            if any(device.name == name for device in framework.framework().devices):
                framework.drain_device(name, drain=False)
            else:
                framework.add_device(name, str(directory))

    def remove_device(self, name: str) -> None:
        """Have the framework forget a device. One that it was told of at its start, it leaves alone until its next."""
        with self._asked() as framework:
            if any(device.name == name and device.is_added for device in framework.framework().devices):
                framework.remove_device(name)
            else:
                framework.drain_device(name)

    @contextmanager
    def _asked(self) -> Iterator[FrameworkAdmin]:
        with (
            _reached("the framework"),
            FrameworkAdmin(self._framework, self._key, _CLIENT_NAME, _PATIENCE_SECONDS) as admin,
        ):
            yield admin


@contextmanager
def _reached(name: str) -> Iterator[None]:
    """Say who could not be asked."""
    try:
        yield
    except MissingMethodError:
        raise
    except HalError as error:
        raise HalError(error.status, f"{name} refuses: {error.message}") from error
    except NnhalError as error:
        general_failure(f"{name} cannot be asked: {error}")
