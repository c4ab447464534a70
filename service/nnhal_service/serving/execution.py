"""Running a batch of requests on an instance, and giving each its own part of what came out."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

import numpy as np
from google.protobuf.message import DecodeError

from nnhal.arrays import Array
from nnhal.errors import HalError, NnhalError, general_failure
from nnhal.extensions.values import PADDING_BYTES, padded, strings_from_bytes, value_to_bytes
from nnhal.types import ErrorStatus
from nnhal_service.runtime import OutputTooSmallError
from nnhal_service.runtime.run.cancellation import require_wanted
from nnhal_service.runtime.run.deadlines import StillRunningError
from nnhal_service.serving.errors import ErrorKind, ServingError
from nnhal_service.serving.failures import serving_error
from nnhal_service.serving.inference import Inference, Ran, cancellation_of, deadline_of, priority_of
from nnhal_service.serving.instance import Instance, InstancePool
from nnhal_service.serving.priorities import Priorities
from nnhal_service.serving.queue import NEVER
from nnhal_service.serving.signature import Signature

_LEAST_VALUE_BYTES = 256
_OF_ALL = frozenset({ErrorStatus.MISSED_DEADLINE_TRANSIENT, ErrorStatus.MISSED_DEADLINE_PERSISTENT})
"""Failures that would be the same for each request of a batch."""


class Execution:
    """Runs batches. Safe to use from several threads."""

    def __init__(
        self,
        name: str,
        signature: Signature,
        instances: InstancePool,
        priorities: Priorities,
        executed: Callable[[Ran, int], None],
    ) -> None:
        """``executed`` is called after each run with what it was, and the nanoseconds of its output."""
        self._name = name
        self._inputs = signature.inputs
        self._outputs = signature.outputs
        self._output_index = signature.output_index
        self._has_values = any(served.is_value for served in signature.inputs)
        self._instances = instances
        self._priorities = priorities
        self._executed = executed

    def run(self, batch: Sequence[Inference]) -> None:
        """Run a batch: what each request brought is in it, or why it failed. A batch that fails runs one by one."""
        live = [inference for inference in batch if self._is_live(inference)]
        if not live:
            return
        try:
            self._run(live)
        except (NnhalError, OSError, MemoryError) as error:
            if len(live) > 1 and isinstance(error, HalError) and error.status not in _OF_ALL:
                for inference in live:
                    self.run([inference])
                return
            for inference in live:
                inference.reached_device = True
                inference.error = serving_error(self._name, error)
                # Its frames hold the instance and the batch, which would not be free until Python looks for circles.
                inference.error.__cause__ = error.with_traceback(None)

    def _is_live(self, inference: Inference) -> bool:
        """Whether a request is still wanted."""
        request = inference.request
        if request.cancellation.cancelled:
            inference.error = ServingError(ErrorKind.CANCELLED, "the request has been cancelled")
        elif inference.deadline_ns != NEVER and time.monotonic_ns() >= inference.deadline_ns:
            inference.error = ServingError(ErrorKind.DEADLINE_EXCEEDED, "Deadline exceeded before the request ran")
        return inference.error is None

    def _run(self, batch: Sequence[Inference]) -> None:
        started = time.monotonic_ns()
        columns = self._columns(batch)
        measure = any(inference.is_measured for inference in batch)
        deadline_ns, cancellation = deadline_of(batch), cancellation_of(batch)
        shapes = tuple([_shape(parts) for parts in columns])
        instance = self._instances.take(shapes, measure, priority_of(batch, self._priorities), deadline_ns)
        try:
            while True:
                _fill(instance, columns)
                running = time.monotonic_ns()
                try:
                    report = instance.run(deadline_ns, cancellation)
                    break
                except OutputTooSmallError as error:
                    require_wanted(cancellation)
                    instance = self._instances.replace(instance, error, deadline_ns)
            ended = time.monotonic_ns()
            self._hand_out(batch, instance)
        except StillRunningError:
            instance.abandon()
            raise
        except BaseException:
            self._instances.give_back(instance)
            raise
        size = _size(batch)
        ran = Ran(
            instance.prepared,
            report,
            size,
            instance.filled_bytes,
            instance.planned_copies,
            instance.planned_edges,
            started,
            running,
            ended,
        )
        holders = _Holders(len(batch)) if len(batch) > 1 else None
        for inference in batch:
            inference.ran = ran
            inference.release = _Release(self._instances, instance, holders)
        self._executed(ran, time.monotonic_ns() - ended)

    def _columns(self, batch: Sequence[Inference]) -> list[Sequence[Array]]:
        """For each input the arrays that lie in it one after the other."""
        if len(batch) == 1 and not self._has_values:
            return [(array,) for array in batch[0].arrays]
        columns: list[Sequence[Array]] = []
        for index, served in enumerate(self._inputs):
            parts = [inference.arrays[index] for inference in batch]
            columns.append([_encoded(parts)] if served.is_value else parts)
        return columns

    def _hand_out(self, batch: Sequence[Inference], instance: Instance) -> None:
        """Give each request the outputs that it wants. Raises GENERAL_FAILURE where the model made no such batch."""
        wanted = batch[0].request.outputs if len(batch) == 1 else ()
        whole = {name: self._output(name, instance) for name in wanted or self._output_index}
        if len(batch) == 1:
            batch[0].outputs = whole
            return
        total, start = _size(batch), 0
        for name, array in whole.items():
            if not array.shape or len(array) != total:
                general_failure(f"output {name!r} has shape {list(array.shape)} for a batch of {total}")
        for inference in batch:
            end = start + inference.size
            inference.outputs = {name: whole[name][start:end] for name in inference.request.outputs or whole}
            start = end

    def _output(self, name: str, instance: Instance) -> Array:
        """An output in the model's own element type: in place where it lies so in memory, else a copy."""
        index = self._output_index[name]
        served, stored = self._outputs[index], instance.output(index)
        if served.is_value:
            try:
                return strings_from_bytes(stored)
            except (ValueError, DecodeError):
                raise ServingError(ErrorKind.UNSUPPORTED, f"output '{name}' is no tensor of strings") from None
        array = stored if stored.dtype == served.element_type else stored.astype(served.element_type)
        return array.reshape(()) if served.tensor.scalar else array


class _Holders:
    """How many still look at the outputs of a batch."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._lock = threading.Lock()

    def leave(self) -> bool:
        """Whether that was the last one."""
        with self._lock:
            self._count -= 1
            return self._count == 0


class _Release:
    """Gives an instance back when all who look at its outputs have called theirs; harmless when repeated."""

    __slots__ = ("_holders", "_instance", "_instances")

    def __init__(self, instances: InstancePool, instance: Instance, holders: _Holders | None) -> None:
        self._instances = instances
        self._instance: Instance | None = instance
        self._holders = holders

    def __call__(self) -> None:
        instance, self._instance = self._instance, None
        if instance is not None and (self._holders is None or self._holders.leave()):
            self._instances.give_back(instance)


def _size(batch: Sequence[Inference]) -> int:
    return batch[0].size if len(batch) == 1 else sum([inference.size for inference in batch])


def _shape(parts: Sequence[Array]) -> tuple[int, ...]:
    first = parts[0]
    return first.shape if len(parts) == 1 else (sum(map(len, parts)), *first.shape[1:])


def _fill(instance: Instance, columns: Sequence[Sequence[Array]]) -> None:
    """Copy the inputs to where the devices read them."""
    for view, parts in zip(instance.inputs, columns, strict=True):
        if len(parts) == 1:
            view[...] = parts[0]
            continue
        start = 0
        for part in parts:
            view[start : start + len(part)] = part
            start += len(part)


def _encoded(parts: Sequence[Array]) -> Array:
    """Strings as a value, padded: values of about the same size can use the same memory."""
    encoded = value_to_bytes(parts[0] if len(parts) == 1 else np.concatenate(parts))
    size = max(_LEAST_VALUE_BYTES, 1 << (len(encoded) + PADDING_BYTES - 1).bit_length())
    return np.frombuffer(padded(encoded, size), np.uint8)
