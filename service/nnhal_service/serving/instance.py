"""Instances of a served model: execution contexts over memory of the framework and of clients, kept for later."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextvars import copy_context
from dataclasses import replace
from functools import partial

from nnhal.arrays import Array
from nnhal.memory import MappedPool, create_ashmem, create_blob, open_pool
from nnhal.tensors import Tensor, lay_out
from nnhal.types import NO_DEADLINE, DataLocation, Memory, Priority
from nnhal.types.layout import Dimensions
from nnhal_service.fallback.edges import ASHMEM
from nnhal_service.runtime import (
    OutputReport,
    OutputTooSmallError,
    RunReport,
    TensorBinding,
)
from nnhal_service.runtime.run.cancellation import Cancellation
from nnhal_service.runtime.run.deadlines import run_by_deadline
from nnhal_service.serving.bound import OUTPUT, BindableModel, InstanceRun
from nnhal_service.serving.client_memory import ClientRegion, PlacedTensor, TensorData
from nnhal_service.serving.errors import ErrorKind, ServingError
from nnhal_service.serving.exchange_watch import ExchangeWatch
from nnhal_service.serving.instance_memory import InstanceMemory
from nnhal_service.serving.loop import ServingLoop
from nnhal_service.serving.placement import PlannedRun
from nnhal_service.serving.placing import NO_PLACES, Places
from nnhal_service.serving.room import OutputRoom, Shapes

NOT_COUNTED = InstanceMemory()
NO_ROOM: Mapping[str, int] = {}


class Instance:
    """A loaded model that is bound to memory, for inputs of certain dimensions. It runs once at a time.

    ``inputs`` are views of the memory, in the model's order, None for those that lie in memory of clients; write them,
    ``run``, and read ``output``.
    """

    def __init__(
        self,
        model: BindableModel,
        inputs: Sequence[Tensor],
        outputs: Sequence[Tensor],
        shapes: Shapes,
        room: Mapping[str, int],
        measure: bool,
        priority: Priority | None,
        places: Places = NO_PLACES,
        memory: InstanceMemory = NOT_COUNTED,
    ) -> None:
        """``room`` gives the bytes for outputs of unknown dimensions. If ``measure``, runs report what their steps
        took. ``priority`` is the priority of its runs, None for the model's own. ``places`` are in memory of clients.
        Its own memory counts in ``memory``.

        Raises HalError if a device refuses, TransportError if a device is gone, OSError if memory is exhausted, and
        RESOURCE_EXHAUSTED if it may take no more.
        """
        self.shapes = shapes
        self.room = room
        self.measures = measure
        self.priority = priority
        self.places = places
        self.counted_bytes = 0
        """The bytes that count in ``memory`` until they are unmapped."""
        self._uncount: Callable[[], object] = lambda: None
        self.is_spent = False
        """Whether it must not run again: a device has lost memory of a client, or may still write to its own."""
        self._outputs = tuple(outputs)
        self._reported: dict[str, Dimensions] = {}
        sizes = {
            **{t.name: max(1, t.bytes_of(shape)) for t, shape in zip(inputs, shapes, strict=True)},
            **{OUTPUT + t.name: t.byte_size or room[t.name] for t in outputs},
        }
        placed = {
            **{t.name: place for t, place in zip(inputs, places.inputs, strict=False) if place is not None},
            **{OUTPUT + t.name: place for t, place in zip(outputs, places.outputs, strict=False) if place is not None},
        }
        own = {name: byte_size for name, byte_size in sizes.items() if name not in placed}
        locations, size = lay_out(own, model.alignment)
        pools: list[Memory] = [place.as_memory() for place in placed.values()]
        for index, (name, place) in enumerate(placed.items()):
            locations[name] = DataLocation(index, 0, place.byte_size)
        if own:
            self.counted_bytes = memory.take(size)
            pool, allocated = _allocated(size, model.memory_kind, partial(memory.give_back, self.counted_bytes))
            self._uncount = memory.until_unmapped(pool, self.counted_bytes)
            for name in own:
                locations[name] = replace(locations[name], pool_index=len(pools))
            pools.append(allocated)
            self._pool = pool
        self._offsets = [locations[OUTPUT + t.name].offset for t in outputs]
        self.inputs = [
            None if t.name in placed else t.view(pool, locations[t.name].offset, shape)
            for t, shape in zip(inputs, shapes, strict=True)
        ]
        self.filled_bytes = sum(view.nbytes for view in self.inputs if view is not None)
        self.output_bytes = sum(byte_size for name, byte_size in own.items() if name.startswith(OUTPUT))
        self.watch: ExchangeWatch | None = None
        """Watches for the answers of its runs; only the loop uses it."""
        self._placed = [placed.get(OUTPUT + t.name) for t in outputs]
        self._fixed: list[Array | None] = [
            None if t.is_open or place is not None else t.view(pool, offset, t.dimensions)
            for t, offset, place in zip(outputs, self._offsets, self._placed, strict=True)
        ]
        self._seen: list[Array | None] = [None] * len(self._fixed)
        self._bound = model.bind(
            [
                TensorBinding(t.name, locations[t.name], shape if t.is_open else ())
                for t, shape in zip(inputs, shapes, strict=True)
            ],
            [TensorBinding(t.name, locations[OUTPUT + t.name]) for t in outputs],
            pools,
            measure,
            priority,
        )

    def run(self, deadline_ns: int, cancellation: Cancellation | None = None) -> RunReport:
        """Run it once.

        Raises as ExecutionContext.run, and StillRunningError if the run outlasts its deadline: abandon it then.
        """
        if deadline_ns == NO_DEADLINE:
            report = self._bound.run(deadline_ns, cancellation)
        else:
            report = run_by_deadline(lambda deadline_ns: self._bound.run(deadline_ns, cancellation), deadline_ns)
        return self._noted(report)

    def start(self, deadline_ns: int, cancellation: Cancellation | None = None) -> InstanceRun | None:
        """Start a run and return at once, if that can be; else None. Raises as ExecutionContext.start."""
        return self._bound.start(deadline_ns, cancellation)

    def finish(self, started: InstanceRun) -> RunReport | None:
        """The report of a run that was started; None if it failed, and ``recover`` is to be called."""
        report = started.finish()
        return None if report is None else self._noted(report)

    def recover(self, failed: InstanceRun, deadline_ns: int) -> RunReport:
        """Recover a run that was started and has failed. Raises as ``run``."""
        return self._noted(run_by_deadline(lambda _: failed.recover(), deadline_ns))

    @property
    def planned(self) -> PlannedRun:
        """What its last run did by the plan."""
        return self._bound.planned

    def output(self, index: int) -> TensorData:
        """A view of an output of the last run, or its place in memory of a client."""
        fixed = self._fixed[index]
        if fixed is not None:
            return fixed
        tensor, place = self._outputs[index], self._placed[index]
        dimensions, seen = self._reported.get(tensor.name, (0,)), self._seen[index]
        if place is not None:
            return PlacedTensor(tensor.stored, dimensions if tensor.is_open else tensor.dimensions, place)
        if seen is None or seen.shape != dimensions:
            seen = self._seen[index] = tensor.view(self._pool, self._offsets[index], dimensions)
        return seen

    def close(self) -> None:
        """Release it on the devices once its run has ended. Views of its memory stay valid."""
        self._bound.close()

    def count_no_more(self) -> None:
        """Give its memory back to the limit now, since it is closed in a moment."""
        self.counted_bytes = 0
        self._uncount()

    def abandon(self) -> None:
        """Release it when its run ends, without waiting for that."""
        self._bound.close(0)

    def _noted(self, report: RunReport) -> RunReport:
        self.is_spent = self.is_spent or (report.fell_back and bool(self.places.all))
        for output in report.outputs:
            self._reported[output.name] = output.dimensions
        return report


def _allocated(size: int, kind: str, failed: Callable[[], None]) -> tuple[MappedPool, Memory]:
    try:
        memory: Memory = create_ashmem(size, "nnhal-serving") if kind == ASHMEM else create_blob(size)
        pool = open_pool(memory, writable=True)
    except BaseException:
        failed()
        raise
    if not isinstance(pool, MappedPool):
        raise TypeError(f"{kind} is mapped")
    return pool, memory


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
        self._room = OutputRoom(inputs, outputs, has_batch)
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
                    and idle.places == places
                    and all(idle.room[name] >= size for name, size in room.items())
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

    def give_back(self, instance: Instance, failed: bool = False) -> None:
        """Keep an instance for later; if that is one too many, release the one used longest ago.

        One that has memory of a client is released if its run has ``failed``, or if the client has given it up.
        """
        dropped: Instance | None = instance
        with self._lock:
            is_closed = self._closed
            if not (is_closed or _is_spent(instance, failed)):
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


def _is_spent(instance: Instance, failed: bool) -> bool:
    places = instance.places.all
    return instance.is_spent or (failed and bool(places)) or any(place.region.is_retired for place in places)


def _uses(instance: Instance, region: ClientRegion) -> bool:
    return any(place.region is region for place in instance.places.all)
