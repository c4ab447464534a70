"""The instances of a served model that are kept for their next use, and how much memory new ones get."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from contextvars import copy_context
from functools import partial

from nnhal.tensors import GUESS, Tensor
from nnhal.types import NO_DEADLINE, Priority
from nnhal_service.runtime import (
    OutputReport,
    OutputTooSmallError,
)
from nnhal_service.runtime.run.deadlines import run_by_deadline
from nnhal_service.serving.errors import ErrorKind, ServingError
from nnhal_service.serving.instances.bindable_model import BindableModel
from nnhal_service.serving.instances.in_place import NO_PLACES, Places
from nnhal_service.serving.instances.instance import NO_ROOM, NOT_COUNTED, Instance, Shapes
from nnhal_service.serving.instances.instance_memory import InstanceMemory
from nnhal_service.serving.loop import ServingLoop
from nnhal_service.serving.requests.client_memory import ClientRegion


class OutputSizeGuess:
    """Guesses the bytes of open outputs from what they took in earlier runs. Safe to use from several threads.

    An output that took much once must not cost every later run as much: the guess grows with the inputs of the run, as
    most outputs do, and is never more than the most that the output took.
    """

    def __init__(self, inputs: Sequence[Tensor], outputs: Sequence[Tensor], has_batch: bool) -> None:
        self._inputs = tuple(inputs)
        self._open = tuple(tensor for tensor in outputs if tensor.is_open)
        self._has_batch = has_batch
        self._lock = threading.Lock()
        self._most = dict.fromkeys((tensor.name for tensor in self._open), 0)
        self._for_each_byte = dict.fromkeys(self._most, 0.0)

    def guess(self, shapes: Shapes) -> dict[str, int]:
        """The bytes of each open output: exact if only its batch axis is unknown."""
        with self._lock:
            return {tensor.name: self._guess(tensor, shapes) for tensor in self._open}

    def least(self, shapes: Shapes) -> dict[str, int]:
        """Return what the open outputs get if there is no memory for a guess: a run that needs more says so."""
        return {tensor.name: self._exact(tensor, shapes) or GUESS for tensor in self._open}

    def learn(self, shapes: Shapes, taken: Mapping[str, int]) -> None:
        """Note the bytes that open outputs took in a run with inputs of these dimensions."""
        given = self._bytes_of(shapes)
        with self._lock:
            for name, size in taken.items():
                self._most[name] = max(size, self._most[name])
                self._for_each_byte[name] = max(size / given, self._for_each_byte[name])

    def _guess(self, tensor: Tensor, shapes: Shapes) -> int:
        scaled = int(self._for_each_byte[tensor.name] * self._bytes_of(shapes)) + 1
        return self._exact(tensor, shapes) or max(GUESS, min(self._most[tensor.name], scaled))

    def _exact(self, tensor: Tensor, shapes: Shapes) -> int:
        if self._has_batch and tensor.dimensions and 0 not in tensor.dimensions[1:]:
            return tensor.bytes_of((shapes[0][0], *tensor.dimensions[1:]))
        return 0

    def _bytes_of(self, shapes: Shapes) -> int:
        return max(1, sum(tensor.bytes_of(shape) for tensor, shape in zip(self._inputs, shapes, strict=True)))


class InstancePool:
    """Makes an instance if no kept one fits a run, and keeps those given back. Safe to use from several threads."""

    def __init__(
        self,
        model: BindableModel,
        inputs: Sequence[Tensor],
        outputs: Sequence[Tensor],
        has_batch: bool,
        kept: int,
        measure: bool,
        loop: ServingLoop,
        memory: InstanceMemory = NOT_COUNTED,
    ) -> None:
        """``kept`` is how many instances may wait for their next use; those used longest ago are released. All count in
        ``memory``, for which they are released earlier if it is short.
        """
        self._loop = loop
        self._memory = memory
        self._model = model
        self._inputs = tuple(inputs)
        self._outputs = tuple(outputs)
        self._kept = kept
        self._measure = measure
        self._lock = threading.Lock()
        self._idle: list[Instance] = []
        self._closed = False
        self._watched: set[ClientRegion] = set()
        self._room = OutputSizeGuess(inputs, outputs, has_batch)
        memory.add(self)

    @property
    def idle_bytes(self) -> int:
        """The counted bytes of the instances that are kept."""
        return sum([instance.counted_bytes for instance in list(self._idle)])

    def release_oldest(self) -> bool:
        """Release the instance that was used longest ago, of those kept that count; False if there is none."""
        with self._lock:
            oldest = next((instance for instance in self._idle if instance.counted_bytes), None)
            if oldest is None:
                return False
            self._idle.remove(oldest)
        oldest.count_no_more()
        self._loop.wait_for(oldest.close, copy_context())
        return True

    def idle(
        self,
        shapes: Shapes,
        measure: bool = False,
        priority: Priority | None = None,
        places: Places = NO_PLACES,
        room: Mapping[str, int] = NO_ROOM,
    ) -> Instance | None:
        """A kept instance for one run, as ``take``, with at least ``room`` for its outputs; None if there is none."""
        measure = measure or self._measure
        with self._lock:
            for index in range(len(self._idle) - 1, -1, -1):
                idle = self._idle[index]
                if (
                    idle.shapes == shapes
                    and idle.measures == measure
                    and idle.priority is priority
                    and (idle.places is places or idle.places == places)
                    and (not room or all(idle.room[name] >= size for name, size in room.items()))
                ):
                    return self._idle.pop(index)
        return None

    def take(
        self,
        shapes: Shapes,
        measure: bool = False,
        priority: Priority | None = None,
        deadline_ns: int = NO_DEADLINE,
        places: Places = NO_PLACES,
    ) -> Instance:
        """An instance for one run: of certain dimensions, with a priority, and measuring if ``measure`` says so.
        ``places`` are in memory of clients.

        Raises as Instance does, and StillRunningError if making it outlasts the deadline.
        """
        idle = self.idle(shapes, measure, priority, places)
        if idle is not None:
            return idle
        room = self._room.guess(shapes)
        try:
            return self._make(shapes, room, measure, priority, deadline_ns, places)
        except ServingError as error:
            least = self._room.least(shapes)
            if error.kind is not ErrorKind.RESOURCE_EXHAUSTED or least == room:
                raise
            return self._make(shapes, least, measure, priority, deadline_ns, places)

    def _make(
        self,
        shapes: Shapes,
        room: Mapping[str, int],
        measure: bool,
        priority: Priority | None,
        deadline_ns: int,
        places: Places,
    ) -> Instance:
        make = partial(
            Instance,
            self._model,
            self._inputs,
            self._outputs,
            shapes,
            room,
            measure or self._measure,
            priority,
            places,
            self._memory,
        )
        self._watch(places)
        return make() if deadline_ns == NO_DEADLINE else run_by_deadline(lambda _: make(), deadline_ns, self.give_back)

    def give_back(self, instance: Instance, failed: bool = False, use: int | None = None) -> None:
        """Keep an instance for later; if that is one too many, release the one used longest ago. Harmless if ``use``,
        its ``uses`` when it was taken, is not the last one any more.

        One that has memory of a client is released if its run has ``failed``, or if the client has given it up.
        """
        dropped: Instance | None = instance
        with self._lock:
            if use is not None and use != instance.uses:
                return
            instance.uses += 1
            is_closed, is_spent = self._closed, instance.is_spent
            if not is_spent and instance.places is not NO_PLACES:
                is_spent = _is_lost(instance.places, failed)
            if not (is_closed or is_spent):
                self._idle.append(instance)
                dropped = self._idle.pop(0) if len(self._idle) > self._kept else None
        if is_closed:
            instance.close()
        elif dropped is not None:  # the caller may be the loop, and devices are asked to release it
            self._loop.wait_for(dropped.close, copy_context())

    def replace(self, instance: Instance, error: OutputTooSmallError, deadline_ns: int = NO_DEADLINE) -> Instance:
        """An instance with more memory, after the outputs of a run did not fit.

        Raises the error if the outputs should have fitted, else as ``take``; the instance is unchanged then.
        """
        needed = self._needed(error.outputs)
        if all(size <= instance.room[name] for name, size in needed.items()):
            raise error
        room = {name: max(size, needed.get(name, 0)) for name, size in instance.room.items()}
        asked = (instance.shapes, instance.measures, instance.priority)
        larger = self.idle(*asked, instance.places, room)
        if larger is None:
            larger = self._make(instance.shapes, room, *asked[1:], deadline_ns, instance.places)
        self._room.learn(instance.shapes, needed)
        instance.close()
        return larger

    def renew(self, instance: Instance, deadline_ns: int = NO_DEADLINE) -> Instance:
        """An instance like this one in memory that no device has seen. Raises as ``take``.

        This one does not run again: a device that sleeps may still write to it.
        """
        instance.is_spent = True
        asked = instance.shapes, instance.room, instance.measures, instance.priority
        renewed = self._make(*asked, deadline_ns, instance.places)
        instance.close()
        return renewed

    def close(self) -> None:
        """Release all instances; those in use are released when they are given back."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
            watched, self._watched = self._watched, set()
        for region in watched:
            region.forget(self._forget)
        for instance in idle:
            instance.close()

    def _watch(self, places: Places) -> None:
        """Have idle instances released when a region of a client is retired."""
        for place in places.all:
            with self._lock:
                is_new = place.region not in self._watched and not self._closed
                self._watched.add(place.region)
            if is_new:
                place.region.on_retired(self._forget)

    def _forget(self, region: ClientRegion) -> None:
        with self._lock:
            self._watched.discard(region)
            gone = [idle for idle in self._idle if _uses(idle, region)]
            self._idle = [idle for idle in self._idle if not _uses(idle, region)]
        for instance in gone:
            self._loop.wait_for(instance.close, copy_context())

    def _needed(self, reports: Sequence[OutputReport]) -> dict[str, int]:
        """The bytes that open outputs need."""
        tensors = {tensor.name: tensor for tensor in self._outputs if tensor.is_open}
        return {r.name: tensors[r.name].bytes_of(r.dimensions) for r in reports if r.name in tensors}


def _is_lost(places: Places, failed: bool) -> bool:
    """Return whether memory of clients is not to be used again, after a run that has perhaps ``failed``."""
    return (failed and bool(places.all)) or any(place.region.is_retired for place in places.all)


def _uses(instance: Instance, region: ClientRegion) -> bool:
    return any(place.region is region for place in instance.places.all)
