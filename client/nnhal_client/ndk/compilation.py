"""Compilations: models on devices."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence, Set
from dataclasses import replace
from functools import cached_property

from nnhal.codec import model_to_wire
from nnhal.contexts import Closing
from nnhal.errors import HalError, NnhalError, general_failure
from nnhal.memory import read_pools
from nnhal.resolved import ResolvedModel, inline_constants, propagate_dimensions
from nnhal.types import (
    CACHE_TOKEN_BYTES,
    NO_DEADLINE,
    ErrorStatus,
    ExecutionPreference,
    ExtensionNameAndPrefix,
    Hints,
    Model,
    Priority,
    TokenValuePair,
)
from nnhal.types.layout import Dimensions
from nnhal.v1 import framework_pb2 as wire
from nnhal_client.framework import Framework
from nnhal_client.model import Model as LoadedModel
from nnhal_client.ndk.binding import Arguments, BindingSettings, ExecutionBinding
from nnhal_client.ndk.devices import Device, framework_names
from nnhal_client.ndk.result import NeuralNetworksError, ResultCode
from nnhal_client.ndk.session import living

_CODES = 1 << 16
"""How many attributes an extension may have."""
_MOST_IDLE = 8
"""Bindings that are kept for executions to come."""


class Compilation(Closing):
    """ANeuralNetworksCompilation. Use as a context, or ``close`` it.

    With devices named there is no fallback to the CPU; without, all devices may be used, and the CPU if one fails.
    Operations are placed by NNAPI's rule. Setters raise BAD_STATE after ``finish``.
    """

    def __init__(self, framework: Framework, model: Model, devices: Sequence[Device] | None = None) -> None:
        """Raises BAD_DATA if the list of devices is empty or names one twice."""
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
        self._contradiction = ""
        self._lock = threading.Lock()
        self._idle: list[ExecutionBinding] = []

    @property
    def is_sound(self) -> bool:
        """Whether it can be executed: NNAPI finds out in an execution only that dimensions contradict one another."""
        return not self._contradiction

    @property
    def loaded(self) -> LoadedModel:
        """The model in the framework. Raises BAD_STATE before ``finish``, or if that failed; OP_FAILED if it is not
        sound.
        """
        self.require_ready()
        if self._loaded is None:
            raise NeuralNetworksError(ResultCode.OP_FAILED, self._contradiction)
        return self._loaded

    def require_ready(self) -> None:
        """Raise BAD_STATE before ``finish``, or if that failed."""
        if self._loaded is None and self.is_sound:
            raise NeuralNetworksError(ResultCode.BAD_STATE, "the compilation is not finished, or failed")

    def bound(self, arguments: Arguments, settings: BindingSettings) -> ExecutionBinding:
        """A binding for an execution: one that another execution of the same kind has left, or a new one.

        Raises as ``loaded``, HalError, TransportError, OSError.
        """
        loaded = self.loaded
        with self._lock:
            lost = [binding for binding in self._idle if not binding.is_usable]
            self._idle = [binding for binding in self._idle if binding not in lost]
            key = arguments.key(settings)
            found = next((binding for binding in self._idle if binding.key == key), None)
            if found is not None:
                self._idle.remove(found)
        for binding in lost:
            binding.close()
        if found is None:
            self.consistency.require(*([a.dimensions for a in side] for side in (arguments.inputs, arguments.outputs)))
            found = ExecutionBinding(self.framework, loaded, arguments, settings)
        return found

    def give_back(self, binding: ExecutionBinding) -> None:
        """Keep a binding that does not run for the next execution of its kind."""
        with self._lock:
            self._idle.append(binding)
            most = 0 if self._loaded is None else _MOST_IDLE
            gone = [self._idle.pop(0) for _ in range(len(self._idle) - most)]
        for binding in gone:
            binding.close()

    @cached_property
    def consistency(self) -> Consistency:
        """The check of an execution's dimensions. The model has to be valid."""
        return Consistency(self.model)

    @property
    def has_one_named_device(self) -> bool:
        """Return whether the application named exactly one device, as timing, timeouts and hints need."""
        return self.devices is not None and len(self.devices) == 1

    def set_preference(self, preference: ExecutionPreference) -> None:
        """Set what devices favour; by default FAST_SINGLE_ANSWER."""
        self._require_unfinished()
        self._preference = preference

    def set_priority(self, priority: Priority) -> None:
        """Set how executions rank among those of the session; by default MEDIUM."""
        self._require_unfinished()
        self._priority = priority

    def set_timeout(self, duration_ns: int) -> None:
        """Set the time that ``finish`` may take, 0 for any. Raises BAD_DATA unless exactly one device is named."""
        self._require_unfinished()
        self.require_one_device("a timeout")
        self._timeout_ns = require_duration(duration_ns)

    def set_caching(self, token: bytes) -> None:
        """Have the compilation cached, if the framework has a directory for that.

        ``token`` stands for the model and what is set here. Raises BAD_DATA if it has not 32 bytes.
        """
        self._require_unfinished()
        if len(token) != CACHE_TOKEN_BYTES:
            raise NeuralNetworksError(
                ResultCode.BAD_DATA, f"a token of {len(token)} bytes, expected {CACHE_TOKEN_BYTES}"
            )
        self._token = token

    def add_extension_attribute(self, extension: str, code: int, data: bytes) -> None:
        """Give the device a hint: an attribute that an extension defines.

        Raises BAD_DATA unless exactly one device is named, if that device does not know the extension, and if the code
        is out of range or was given before.
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

        If the framework has gone, its successor is connected with. Raises BAD_STATE the second time, BAD_DATA if the
        model is invalid or no device takes an operation, and what the device's error maps to if a device cannot prepare
        its part. If constants and dimensions of the model contradict one another, executions fail, and not this.
        """
        self._require_unfinished()
        self._finished = True
        try:
            self.framework = living(self.framework)
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
            self._contradiction = self._contradicts() if _is_invalid(error) else ""
            if self.is_sound:
                raise NeuralNetworksError.from_error(error) from error

    def _contradicts(self) -> str:
        """What is wrong with the values and dimensions of a model that is valid otherwise."""
        request = wire.CheckModelRequest(model=model_to_wire(self.model, self.framework.calls.issue))
        try:
            self.framework.calls.call(self.framework.stub.CheckModel, request)
        except NnhalError:
            return ""
        try:
            request.reads_constants = True
            self.framework.calls.call(self.framework.stub.CheckModel, request)
        except NnhalError as error:
            return str(error) if _is_invalid(error) else ""
        return ""

    def require_one_device(self, what: str) -> None:
        """Raise BAD_DATA unless exactly one device is named."""
        if not self.has_one_named_device:
            got = "none" if self.devices is None else len(self.devices)
            raise NeuralNetworksError(ResultCode.BAD_DATA, f"{what} with {got} of the devices named, expected one")

    def close(self) -> None:
        """Release it, after its executions have ended. Harmless when repeated."""
        with self._lock:
            loaded, self._loaded = self._loaded, None
            idle, self._idle = self._idle, []
        for binding in idle:
            binding.close()
        if loaded is not None:
            loaded.unload()

    def _require_unfinished(self) -> None:
        if self._finished:
            raise NeuralNetworksError(ResultCode.BAD_STATE, "the compilation is finished already")


class Consistency:
    """Whether the dimensions that an application gives agree with the operations that get them."""

    def __init__(self, model: Model) -> None:
        """``model`` is valid. Raises HalError if its constants cannot be read."""
        self._model = model
        self._constants = inline_constants(model, read_pools(model.pools))

    def require(self, inputs: Sequence[Dimensions], outputs: Sequence[Dimensions]) -> None:
        """Raise GENERAL_FAILURE if the dimensions contradict the model, which NNAPI does not call a bad argument."""
        graph = self._model.main
        operands = list(graph.operands)
        indexes = (*graph.input_indexes, *graph.output_indexes)
        for index, dimensions in zip(indexes, (*inputs, *outputs), strict=True):
            if dimensions:
                operands[index] = replace(operands[index], dimensions=dimensions)
        given = replace(self._model, main=replace(graph, operands=tuple(operands)))
        try:
            propagate_dimensions(ResolvedModel(given, self._constants))
        except HalError as error:
            general_failure(error.message)


class HintList:
    """The hints that an application collects for a device. Each extension gets the next prefix."""

    def __init__(self) -> None:
        self._prefixes: dict[str, int] = {}
        self._values: dict[int, bytes] = {}

    def add(self, known: Set[str], extension: str, code: int, data: bytes) -> None:
        """Add a hint. ``known`` are the extensions of the device.

        Raises BAD_DATA for another extension, and for a code that is out of range or was given before.
        """
        if extension not in known:
            raise NeuralNetworksError(
                ResultCode.BAD_DATA, f"extension {extension!r}, expected one of {sorted(known)}, which the device has"
            )
        if not 0 <= code < _CODES:
            raise NeuralNetworksError(ResultCode.BAD_DATA, f"attribute {code}, expected 0 to {_CODES - 1}")
        prefix = self._prefixes.get(extension, len(self._prefixes) + 1)
        token = prefix * _CODES + code
        if token in self._values:
            raise NeuralNetworksError(ResultCode.BAD_DATA, f"attribute {code} of {extension!r} is given twice")
        self._prefixes[extension] = prefix
        self._values[token] = bytes(data)

    @property
    def hints(self) -> Hints:
        return Hints(
            tuple(TokenValuePair(token, value) for token, value in self._values.items()),
            tuple(ExtensionNameAndPrefix(name, prefix) for name, prefix in self._prefixes.items()),
        )


def _is_invalid(error: NnhalError) -> bool:
    return isinstance(error, HalError) and error.status == ErrorStatus.INVALID_ARGUMENT


def require_duration(duration_ns: int) -> int:
    """A duration in nanoseconds, 0 for any. Raises BAD_DATA if it is below 0."""
    if duration_ns < 0:
        raise NeuralNetworksError(ResultCode.BAD_DATA, f"a duration of {duration_ns} ns, expected 0 or more")
    return duration_ns


def deadline_after(duration_ns: int) -> int:
    """The instant of CLOCK_BOOTTIME after ``duration_ns``; NO_DEADLINE if that is 0."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) + duration_ns if duration_ns else NO_DEADLINE
