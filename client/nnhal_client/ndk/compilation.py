"""Compilations: models on devices."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from types import TracebackType

from nnhal.errors import NnhalError
from nnhal.types import CACHE_TOKEN_BYTES, ExecutionPreference, Model, Priority
from nnhal_client.framework import Framework
from nnhal_client.model import Model as LoadedModel
from nnhal_client.ndk.consistency import Consistency
from nnhal_client.ndk.devices import Device, framework_names
from nnhal_client.ndk.durations import deadline_after, require_duration
from nnhal_client.ndk.hints import HintList
from nnhal_client.ndk.result import NeuralNetworksError, ResultCode


class Compilation:
    """ANeuralNetworksCompilation. Use as a context, or ``close`` it.

    With devices named there is no fallback to the CPU; without, all devices may be used, and the CPU where one fails.
    Operations are placed by NNAPI's rule. What is set after ``finish`` is refused with BAD_STATE.
    """

    def __init__(self, framework: Framework, model: Model, devices: Sequence[Device] | None = None) -> None:
        """Raises BAD_DATA where the list of devices is empty or names one twice."""
        self.framework = framework
        self.model = model
        self.devices = None if devices is None else tuple(devices)
        self._names = [] if devices is None else framework_names(devices)
        self._preference = ExecutionPreference.FAST_SINGLE_ANSWER
        self._priority = Priority.MEDIUM
        self._timeout_ns = 0
        self._token = b""
        self._hints = HintList()
        self._finished = False
        self._loaded: LoadedModel | None = None

    @property
    def loaded(self) -> LoadedModel:
        """The model in the framework. Raises BAD_STATE before ``finish``, or where that failed."""
        if self._loaded is None:
            raise NeuralNetworksError(ResultCode.BAD_STATE, "the compilation is not finished, or failed")
        return self._loaded

    @cached_property
    def consistency(self) -> Consistency:
        """What follows from the model, once it is known to be valid."""
        return Consistency(self.model)

    @property
    def has_one_named_device(self) -> bool:
        """Whether the application named exactly one device: what timing, timeouts and hints are for."""
        return self.devices is not None and len(self.devices) == 1

    def set_preference(self, preference: ExecutionPreference) -> None:
        """What devices should favour; FAST_SINGLE_ANSWER unless it is set."""
        self._require_unfinished()
        self._preference = preference

    def set_priority(self, priority: Priority) -> None:
        """How executions rank among those of this session; MEDIUM unless it is set."""
        self._require_unfinished()
        self._priority = priority

    def set_timeout(self, duration_ns: int) -> None:
        """What ``finish`` may take; 0 for any time. Raises BAD_DATA unless exactly one device is named."""
        self._require_unfinished()
        self.require_one_device("a timeout")
        self._timeout_ns = require_duration(duration_ns)

    def set_caching(self, token: bytes) -> None:
        """Have the compilation kept, where the framework has a directory for that, and used the next time.

        ``token`` are 32 bytes that stand for the model and what is set here; else BAD_DATA.
        """
        self._require_unfinished()
        if len(token) != CACHE_TOKEN_BYTES:
            raise NeuralNetworksError(
                ResultCode.BAD_DATA, f"a token of {len(token)} bytes, expected {CACHE_TOKEN_BYTES}"
            )
        self._token = token

    def add_extension_attribute(self, extension: str, code: int, data: bytes) -> None:
        """Hint at something that an extension defines.

        Raises BAD_DATA unless exactly one device is named, where it does not know the extension, and for a code that is
        none or was given before.
        """
        self._require_unfinished()
        self.add_hint(self._hints, extension, code, data)

    def add_hint(self, hints: HintList, extension: str, code: int, data: bytes) -> None:
        """Add a hint for the only device that is named. Raises BAD_DATA."""
        self.require_one_device("a hint")
        known = {entry.name for device in self.devices or () for entry in device.extensions}
        hints.add(known, extension, code, data)

    def finish(self) -> None:
        """Check the model, place its operations and prepare them.

        Raises BAD_STATE the second time, BAD_DATA where the model is invalid or no device takes an operation, and what
        the device's error maps to where one cannot prepare its part.
        """
        self._require_unfinished()
        self._finished = True
        try:
            self._loaded = self.framework.load_model(
                self.model,
                devices=self._names,
                partitioner="nnapi",
                fallback="allow" if self.devices is None else "deny",
                cache_token=self._token,
                preference=self._preference,
                priority=self._priority,
                deadline_ns=deadline_after(self._timeout_ns),
                hints=self._hints.hints,
            )
        except NnhalError as error:
            raise NeuralNetworksError.from_error(error) from error

    def require_one_device(self, what: str) -> None:
        """Raise BAD_DATA unless exactly one device is named."""
        if not self.has_one_named_device:
            got = "none" if self.devices is None else len(self.devices)
            raise NeuralNetworksError(ResultCode.BAD_DATA, f"{what} with {got} of the devices named, expected one")

    def close(self) -> None:
        """Give it up, when its executions have ended; harmless when repeated."""
        loaded, self._loaded = self._loaded, None
        if loaded is not None:
            loaded.unload()

    def __enter__(self) -> Compilation:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _require_unfinished(self) -> None:
        if self._finished:
            raise NeuralNetworksError(ResultCode.BAD_STATE, "the compilation is finished already")
