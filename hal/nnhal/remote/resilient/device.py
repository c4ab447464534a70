"""IDevice that outlives its process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TypeVar

import structlog

from nnhal.errors import HalError
from nnhal.remote.buffer import RemoteBuffer
from nnhal.remote.device import NO_CACHE, CompilationCache, RemoteDevice
from nnhal.remote.identity import DeviceIdentity
from nnhal.remote.prepared_model import RemotePreparedModel
from nnhal.remote.resilient.buffer import ResilientBuffer
from nnhal.remote.resilient.prepared_model import ResilientPreparedModel
from nnhal.remote.resilient.renewable import DeviceReplacedError, Renewable
from nnhal.types import (
    NO_DEADLINE,
    BufferRole,
    ExecutionPreference,
    ExtensionNameAndPrefix,
    Model,
    Priority,
    TokenValuePair,
)

_log = structlog.get_logger(__name__)
R = TypeVar("R")
_GETTER_SECONDS = 10.0


class ResilientDevice:
    """A device by what acquires a session with it. Safe to use from several threads.

    ``identity`` is what it said when it was first acquired. Where a device of another identity answers in its place,
    every call from then on fails with DeviceReplacedError.
    """

    def __init__(self, acquire: Callable[[], RemoteDevice], getter_seconds: float = _GETTER_SECONDS) -> None:
        """Acquire it. Raises as ``acquire``, and GENERAL_FAILURE where the device is to be refused."""
        self._acquire = acquire
        self._getter_seconds = getter_seconds
        first = acquire()
        try:
            self.identity: DeviceIdentity = first.identity(getter_seconds)
        except BaseException:
            first.close()
            raise
        self._device = Renewable(first, self._acquire_again)

    @property
    def current(self) -> RemoteDevice:
        """The session, dead or alive. Raises DeviceReplacedError."""
        return self._device.current

    def use(self, call: Callable[[RemoteDevice], R]) -> R:
        """Make a call on the device, and once more on a new session where it has died. Raises as the call."""
        return self._device.use(call)

    def prepare_model(
        self,
        model: Model,
        preference: ExecutionPreference = ExecutionPreference.FAST_SINGLE_ANSWER,
        priority: Priority = Priority.MEDIUM,
        deadline_ns: int = NO_DEADLINE,
        hints: Sequence[TokenValuePair] = (),
        extension_names: Sequence[ExtensionNameAndPrefix] = (),
        cache: CompilationCache = NO_CACHE,
    ) -> ResilientPreparedModel:
        """prepareModelWithConfig. The arguments are kept, but for the deadline, which is that of this call."""

        def prepare(device: RemoteDevice, deadline_ns: int) -> RemotePreparedModel:
            return device.prepare_model(model, preference, priority, deadline_ns, hints, extension_names, cache)

        def prepare_again(device: RemoteDevice) -> RemotePreparedModel:
            if cache.model or cache.data:
                try:
                    return device.prepare_model_from_cache(cache)
                except HalError as error:
                    _log.info("a model is compiled again", device=str(device.endpoint.directory), reason=str(error))
            return prepare(device, NO_DEADLINE)

        first = self.use(lambda device: prepare(device, deadline_ns))
        return ResilientPreparedModel(Renewable(first, lambda _: self.use(prepare_again)))

    def prepare_model_from_cache(
        self, cache: CompilationCache, deadline_ns: int = NO_DEADLINE
    ) -> ResilientPreparedModel:
        """prepareModelFromCache. The cache is kept; the deadline is that of this call."""
        first = self.use(lambda device: device.prepare_model_from_cache(cache, deadline_ns))
        return ResilientPreparedModel(
            Renewable(first, lambda _: self.use(lambda device: device.prepare_model_from_cache(cache)))
        )

    def allocate(
        self,
        prepared_models: Sequence[ResilientPreparedModel],
        input_roles: Sequence[BufferRole] = (),
        output_roles: Sequence[BufferRole] = (),
        dimensions: Sequence[int] = (),
    ) -> ResilientBuffer:
        """allocate. The arguments are kept; a buffer that has to be allocated again is uninitialised."""

        def allocate(device: RemoteDevice) -> RemoteBuffer:
            models = [prepared.alive() for prepared in prepared_models]
            return device.allocate(models, input_roles, output_roles, dimensions)

        return ResilientBuffer(Renewable(self.use(allocate), lambda _: self.use(allocate)))

    def close(self) -> None:
        """End the session."""
        self._device.last.close()

    def __enter__(self) -> ResilientDevice:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _acquire_again(self, dead: RemoteDevice) -> RemoteDevice:
        place = str(dead.endpoint.directory)
        device = self._acquire()
        try:
            identity = device.identity(self._getter_seconds)
        except BaseException:
            device.close()
            raise
        dead.close()
        if identity != self.identity:
            device.close()
            different = ", ".join(self.identity.differences(identity))
            _log.error("another device answers in the place of one that died", device=place, different=different)
            raise DeviceReplacedError(
                f"{place} was {self.identity.version!r}; what answers there now is {identity.version!r} and differs "
                f"in {different}"
            )
        _log.warning("a device that died is back", device=place)
        return device
