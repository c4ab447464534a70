"""Running a batch of requests on an instance, and giving each request its part of the outputs."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from google.protobuf.message import DecodeError

from nnhal.arrays import Array
from nnhal.errors import HalError, NnhalError, general_failure, without_frames
from nnhal.extensions.values import PADDING_BYTES, padded, strings_from_bytes, value_to_bytes
from nnhal.types import ErrorStatus
from nnhal_hosting.logs import get_logger
from nnhal_service.runtime import OutputTooSmallError, RunReport, StateLostError, TouchedMemoryError
from nnhal_service.runtime.run.cancellation import require_wanted
from nnhal_service.runtime.run.deadlines import StillRunningError
from nnhal_service.serving.config import Priorities
from nnhal_service.serving.errors import ErrorKind, ServingError, serving_error
from nnhal_service.serving.instances.bindable_model import InstanceRun
from nnhal_service.serving.instances.in_place import NO_PLACES, InPlaceUse, Places
from nnhal_service.serving.instances.instance import Instance
from nnhal_service.serving.instances.instance_pool import InstancePool
from nnhal_service.serving.queue.batch import Batch, BatchRelease, BatchRun, QueuedRequest, Release
from nnhal_service.serving.requests.client_memory import PlacedTensor, TensorData, to_array
from nnhal_service.serving.requests.signature import ModelSignature, ServedTensor

_LEAST_VALUE_BYTES = 256
_SHARED_FAILURES = frozenset({ErrorStatus.MISSED_DEADLINE_TRANSIENT, ErrorStatus.MISSED_DEADLINE_PERSISTENT})
"""Failures that would be the same if each request of a batch ran alone."""
_log = get_logger(__name__)


class FilledInstance(NamedTuple):
    """An instance whose inputs are those of a batch."""

    instance: Instance
    filled_ns: int
    """The instant of CLOCK_MONOTONIC at which the inputs were in its memory."""


class BatchRunner:
    """Runs batches of one model. Safe to use from several threads.

    ``run`` runs a whole batch and waits for its devices. It consists of parts, so that what need not wait can be done
    in the event loop.
    """

    def __init__(
        self,
        name: str,
        signature: ModelSignature,
        instances: InstancePool,
        placing: InPlaceUse,
        priorities: Priorities,
        executed: Callable[[BatchRun, int], None],
    ) -> None:
        """``executed`` is called after each run, with the nanoseconds that its outputs took."""
        self._name = name
        self._inputs = signature.inputs
        self._outputs = signature.outputs
        self._output_index = signature.output_index
        self._listed_outputs = signature.listed_outputs
        self._has_values = any(served.is_value for served in signature.inputs)
        self.converts = any(served.is_value or served.tensor.stored != served.element_type for served in self._outputs)
        """True if it takes more than views to hand outputs out."""
        self._instances = instances
        self._placing = placing
        self._priorities = priorities
        self._executed = executed

    def run(self, requests: Sequence[QueuedRequest]) -> None:
        """Run a batch, and leave its result or an error in each request. If a batch fails, its requests run alone."""
        live = [queued for queued in requests if queued.is_live]
        if len(live) > 1:
            live = [queued for queued in live if queued.copy_in()]
        if not live:
            return
        try:
            batch = self.batch_of(live)
            columns = self.columns_of(batch)
            instance = self._instances.take(
                shapes_of(columns),
                batch.measure,
                batch.priority,
                batch.deadline_ns,
                self.places_of(batch, columns),
            )
            self.run_on(batch, self.filled(instance, columns))
        except Exception as error:
            self.run_alone_or_fail(live, error)

    def batch_of(self, live: Sequence[QueuedRequest]) -> Batch:
        """The batch of these requests, which begins now."""
        return Batch(live, self._priorities)

    def columns_of(self, batch: Batch) -> list[Sequence[TensorData]]:
        """The tensors that follow one another in each input."""
        requests = batch.requests
        if len(requests) == 1 and not self._has_values:
            return [(tensor,) for tensor in requests[0].arrays]
        columns: list[Sequence[TensorData]] = []
        for index, served in enumerate(self._inputs):
            parts = [queued.arrays[index] for queued in requests]
            columns.append([_encoded([to_array(part) for part in parts])] if served.is_value else parts)
        return columns

    def places_of(self, batch: Batch, columns: Sequence[Sequence[TensorData]]) -> Places:
        """Return where the tensors of a batch lie in memory of its client; nowhere if it has several."""
        if len(batch.requests) > 1 or not batch.requests[0].is_placed:
            return NO_PLACES
        inputs = tuple([part.place if isinstance(part, PlacedTensor) else None for part, *_ in columns])
        return self._placing.places_of(inputs, shapes_of(columns), batch.requests[0].output_places)

    def knows_places(self, batch: Batch, columns: Sequence[Sequence[TensorData]]) -> bool:
        """Return whether ``places_of`` has nothing to compute."""
        return not batch.requests[0].is_placed or self._placing.knows(shapes_of(columns))

    def filled(self, instance: Instance, columns: Sequence[Sequence[TensorData]]) -> FilledInstance:
        """Copy the inputs into an instance's memory. Gives it back if that fails."""
        try:
            _fill(instance, columns)
        except BaseException:
            self._instances.give_back(instance)
            raise
        return FilledInstance(instance, time.monotonic_ns())

    def run_on(self, batch: Batch, filled: FilledInstance, failed: InstanceRun | None = None) -> None:
        """Run a batch on an instance with its inputs; or recover the run that was started there, and has ``failed``.

        Raises as the run does; the instance is given back.
        """
        instance = filled.instance
        try:
            while True:
                try:
                    report = self._run_once(batch, instance, failed)
                    break
                except OutputTooSmallError as error:
                    require_wanted(batch.cancellation)
                    failed = None
                    instance = self._instances.replace(instance, error, batch.deadline_ns)
                    _fill(instance, self.columns_of(batch))
                    filled = FilledInstance(instance, time.monotonic_ns())
                except TouchedMemoryError:
                    require_wanted(batch.cancellation)
                    if instance.places.all:  # what a client gave cannot be replaced
                        raise
                    failed = None
                    instance = self._instances.renew(instance, batch.deadline_ns)
                    _fill(instance, self.columns_of(batch))
                    filled = FilledInstance(instance, time.monotonic_ns())
        except StillRunningError:
            instance.abandon()
            raise
        except BaseException:
            self._instances.give_back(instance, failed=True)
            raise
        self.complete(batch, filled, report, time.monotonic_ns())

    def complete(self, batch: Batch, filled: FilledInstance, report: RunReport, ended_ns: int) -> None:
        """Give each request of a batch that has run its result. Raises if the outputs are not what they should be."""
        instance = filled.instance
        try:
            self._hand_out(batch, instance)
        except BaseException:
            self._instances.give_back(instance)
            raise
        planned = instance.planned
        run = BatchRun(
            planned,
            report,
            batch.size,
            planned.copied_in(report, instance.filled_bytes),
            batch.started_ns,
            filled.filled_ns,
            ended_ns,
        )
        requests, give_back = batch.requests, partial(self._instances.give_back, instance)
        if len(requests) == 1:
            requests[0].run, requests[0].release = run, Release(give_back)
        else:
            release = BatchRelease(give_back, len(requests))
            for queued in requests:
                queued.run, queued.release = run, release.of_each()
        self._executed(run, time.monotonic_ns() - ended_ns)

    def run_alone_or_fail(self, requests: Sequence[QueuedRequest], error: Exception) -> None:
        """After a failure of a batch: run each request alone, on our own memory, if that may help; else leave an error
        in each.
        """
        if may_run_alone(requests, error):
            for request in requests:
                if request.copy_in():
                    self.run([request])
        else:
            self.fail(requests, error)

    def fail(self, requests: Sequence[QueuedRequest], error: Exception) -> None:
        if not isinstance(error, NnhalError | OSError | MemoryError):
            _log.error("a run failed", model=self._name, exc_info=error)
        # The frames hold the instance and the batch: the cycle would keep both alive until the next garbage collection.
        cause = without_frames(error)
        for queued in requests:
            queued.reached_device = True
            # Each request has an error of its own: it is raised where the request is awaited.
            queued.error = serving_error(self._name, cause)
            queued.error.__cause__ = cause

    def _run_once(self, batch: Batch, instance: Instance, failed: InstanceRun | None) -> RunReport:
        if failed is not None:
            return instance.recover(failed, batch.deadline_ns)
        return instance.run(batch.deadline_ns, batch.cancellation)

    def _hand_out(self, batch: Batch, instance: Instance) -> None:
        """Give each request its outputs. Raises GENERAL_FAILURE if an output has not the length of the batch."""
        requests = batch.requests
        wanted = requests[0].request.outputs or self._listed_outputs
        whole = {name: self._shown(name, instance) for name in (wanted if len(requests) == 1 else self._output_index)}
        if len(requests) == 1:
            requests[0].outputs = whole
            return
        for name, array in whole.items():
            if not array.shape or len(array) != batch.size:
                general_failure(f"output {name!r} has shape {list(array.shape)} for a batch of {batch.size}")
        start = 0
        for queued in requests:
            end = start + queued.size
            names = queued.request.outputs or self._listed_outputs
            queued.outputs = {name: to_array(whole[name])[start:end] for name in names}
            start = end

    def _shown(self, name: str, instance: Instance) -> TensorData:
        """An output in the shape in which clients see it."""
        index = self._output_index[name]
        served = self._outputs[index]
        output = self._output(name, served, instance.output(index))
        return output if served.reshape is None else served.reshape.for_client(output)

    def _output(self, name: str, served: ServedTensor, stored: TensorData) -> TensorData:
        """An output in the model's own element type: a view if memory holds that type, else a copy."""
        if isinstance(stored, PlacedTensor):
            return stored
        if served.is_value:
            try:
                return strings_from_bytes(stored)
            except (ValueError, DecodeError):
                raise ServingError(ErrorKind.UNSUPPORTED, f"output '{name}' is not a tensor of strings") from None
        array = stored if stored.dtype == served.element_type else stored.astype(served.element_type)
        return array.reshape(()) if served.tensor.scalar else array


def may_run_alone(requests: Sequence[QueuedRequest], error: Exception) -> bool:
    """Return whether requests whose batch failed may succeed if each runs alone, on our own memory."""
    if not isinstance(error, HalError) or error.status in _SHARED_FAILURES or isinstance(error, StateLostError):
        return False
    return len(requests) > 1 or requests[0].is_placed


def shapes_of(columns: Sequence[Sequence[TensorData]]) -> tuple[tuple[int, ...], ...]:
    """The dimensions of each input of a batch."""
    return tuple([_shape(parts) for parts in columns])


def _shape(parts: Sequence[TensorData]) -> tuple[int, ...]:
    first = parts[0]
    return first.shape if len(parts) == 1 else (sum(map(len, parts)), *first.shape[1:])


def _fill(instance: Instance, columns: Sequence[Sequence[TensorData]]) -> None:
    """Copy the inputs into the instance's memory."""
    for view, parts in zip(instance.inputs, columns, strict=True):
        if view is None:
            continue
        if len(parts) == 1:
            view[...] = to_array(parts[0])
            continue
        start = 0
        for part in parts:
            view[start : start + len(part)] = to_array(part)
            start += len(part)


def _encoded(parts: Sequence[Array]) -> Array:
    """Strings as a value, padded so that values of similar size can use the same memory."""
    encoded = value_to_bytes(parts[0] if len(parts) == 1 else np.concatenate(parts))
    size = max(_LEAST_VALUE_BYTES, 1 << (len(encoded) + PADDING_BYTES - 1).bit_length())
    return np.frombuffer(padded(encoded, size), np.uint8)
