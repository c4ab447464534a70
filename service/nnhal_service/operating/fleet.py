"""AddDevice, RemoveDevice and DrainDevice: the devices that the framework plans with."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import grpc

from nnhal.endpoint import Endpoint
from nnhal.errors import HalError, NnhalError, invalid_argument
from nnhal.types import ErrorStatus
from nnhal.v1 import framework_admin_pb2 as wire
from nnhal_hosting.admin.guard import OperatorGuard
from nnhal_hosting.rpc import answers
from nnhal_service.runtime import Fleet, LoadedModel
from nnhal_service.runtime.devices.notes import Note

LoadedModels = Callable[[], Mapping[str, LoadedModel]]
"""Returns all loaded models, by names that an operator understands."""
_SETTLE_SECONDS = 3.0
"""The time that an operator waits for models to be planned again."""


class OperatedFleet:
    """The part of FrameworkAdminService (framework_admin.proto) that changes the fleet."""

    _guard: OperatorGuard
    _fleet: Fleet
    _loaded: LoadedModels
    _note: Note

    @answers
    def AddDevice(self, request: wire.AddDeviceRequest, context: grpc.ServicerContext) -> wire.AddDeviceResponse:
        self._guard.require_operator(context, "add devices")
        if not request.name or any(character in request.name for character in ",:=/ \n"):
            invalid_argument(f"a device is called {request.name!r}, expected a name without any of ,:=/ and blanks")
        directory = Path(request.directory)
        if not directory.is_absolute():
            invalid_argument(f"device {request.name!r} is at {request.directory!r}, expected an absolute path")
        try:
            self._fleet.add(request.name, Endpoint(directory))
        except ValueError as error:
            invalid_argument(str(error))
        except NnhalError as error:
            raise HalError(
                ErrorStatus.DEVICE_UNAVAILABLE, f"device {request.name!r} cannot be used: {error}"
            ) from error
        self._note("added", request.name, f"device {request.name} is added")
        return wire.AddDeviceResponse()

    @answers
    def RemoveDevice(
        self, request: wire.FrameworkAdminServiceRemoveDeviceRequest, context: grpc.ServicerContext
    ) -> wire.FrameworkAdminServiceRemoveDeviceResponse:
        self._guard.require_operator(context, "remove devices")
        name = request.name
        try:
            self._fleet.require_removable(name)
            self._fleet.withdraw(name)
            left = self._plan_without(name)
            self._fleet.remove(name)
        except (LookupError, ValueError) as error:
            invalid_argument(str(error))
        lost = f"; no run succeeds any more of {', '.join(left)}" if left else ""
        self._note("removed", name, f"device {name} is removed{lost}")
        return wire.FrameworkAdminServiceRemoveDeviceResponse()

    @answers
    def DrainDevice(self, request: wire.DrainDeviceRequest, context: grpc.ServicerContext) -> wire.DrainDeviceResponse:
        self._guard.require_operator(context, "drain devices")
        name, was_draining = request.name, request.name in self._fleet.withdrawn
        try:
            if request.drain:
                self._fleet.withdraw(name)
            else:
                self._fleet.restore(name)
        except LookupError as error:
            invalid_argument(str(error))
        left = self._plan_without(name) if request.drain else self._plan_with(name)
        if request.drain != was_draining:
            on_it = f"; still with steps on it: {', '.join(left)}" if left and request.drain else ""
            done = f"drains: models are planned without it{on_it}" if request.drain else "is used again"
            self._note("drained" if request.drain else "back", name, f"device {name} {done}")
        return wire.DrainDeviceResponse(models=left)

    def _plan_without(self, device: str) -> list[str]:
        """Have models be planned again without a device, and return those that have a step on it still."""
        models = self._loaded().values()
        for model in models:
            model.avoid(device)
        return self._settled(models, device)

    def _plan_with(self, device: str) -> list[str]:
        """Have models run by their own plans again, and return those that have a step on a device now."""
        models = self._loaded().values()
        for model in models:
            model.look(again=True)
        return self._settled(models, device)

    def _settled(self, models: Iterable[LoadedModel], device: str) -> list[str]:
        """Wait for plans that are being made, and return the models with a step on a device then."""
        until = time.monotonic() + _SETTLE_SECONDS
        for model in models:
            model.settle(max(0.0, until - time.monotonic()))
        return [name for name, model in self._loaded().items() if model.uses(device)]
