"""Instances of a served model: execution contexts over memory of the framework's own, kept for the next request."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from nnhal.arrays import Array
from nnhal.extensions.execution import priority_hints
from nnhal.memory import MappedPool, create_ashmem, create_blob, open_pool
from nnhal.memory.arena import round_up
from nnhal.tensors import ALIGNMENT, GUESS, Tensor, lay_out
from nnhal.types import NO_DEADLINE, NO_HINTS, Memory, Priority
from nnhal.types.layout import Dimensions
from nnhal_service.fallback import Side
from nnhal_service.fallback.edges import ALLOCATED, ASHMEM
from nnhal_service.runtime import (
    LoadedModel,
    OutputReport,
    OutputTooSmallError,
    PreparedPlan,
    RunReport,
    TensorBinding,
)
from nnhal_service.runtime.run.cancellation import Cancellation
from nnhal_service.runtime.run.deadlines import run_by_deadline
from nnhal_service.serving.planned import planned_edges

Shapes = tuple[Dimensions, ...]
"""The dimensions of all inputs, in the model's order."""


class Instance:
    """A loaded model tied to memory, for inputs of certain dimensions. One run at a time.

    ``inputs`` are views of the memory, in the model's order; write them, ``run``, and read ``output``.
    """

    def __init__(
        self,
        loaded: LoadedModel,
        inputs: Sequence[Tensor],
        outputs: Sequence[Tensor],
        shapes: Shapes,
        room: Mapping[str, int],
        kind: str,
        alignment: int,
        measure: bool,
        priority: Priority | None,
    ) -> None:
        """``room`` has the bytes for outputs of open dimensions; ``kind`` is that of the memory. ``measure`` has runs
        report what their steps took. ``priority`` is that of its runs, None for the model's own.

        Raises HalError where a device refuses, TransportError where one is gone, OSError where there is no memory.
        """
        self.shapes = shapes
        self.room = room
        self.measures = measure
        self.priority = priority
        self._loaded = loaded
        self._outputs = tuple(outputs)
        self._reported: dict[str, Dimensions] = {}
        sizes = {
            **{t.name: max(1, t.bytes_of(shape)) for t, shape in zip(inputs, shapes, strict=True)},
            **{_OUTPUT + t.name: t.byte_size or room[t.name] for t in outputs},
        }
        locations, size = lay_out(sizes, alignment)
        self._offsets = [locations[_OUTPUT + t.name].offset for t in outputs]
        memory: Memory = create_ashmem(size, "nnhal-serving") if kind == ASHMEM else create_blob(size)
        pool = open_pool(memory, writable=True)
        if not isinstance(pool, MappedPool):
            raise TypeError(f"{kind} is mapped")
        self._pool = pool
        self.inputs = [t.view(pool, locations[t.name].offset, s) for t, s in zip(inputs, shapes, strict=True)]
        self.filled_bytes = sum(view.nbytes for view in self.inputs)
        self._fixed: list[Array | None] = [
            None if t.is_open else t.view(pool, offset, t.dimensions)
            for t, offset in zip(outputs, self._offsets, strict=True)
        ]
        self._seen: list[Array | None] = [None] * len(self._fixed)
        self._context = loaded.bind(
            [
                TensorBinding(t.name, locations[t.name], shape if t.is_open else ())
                for t, shape in zip(inputs, shapes, strict=True)
            ],
            [TensorBinding(t.name, locations[_OUTPUT + t.name]) for t in outputs],
            [memory],
            measure,
            hints=NO_HINTS if priority is None else priority_hints(priority),
        )
        imported = loaded.original.imported
        operands = [tensor.operand for tensor in (*imported.inputs, *imported.outputs)]
        self._kind, self._sizes = kind, dict(zip(operands, sizes.values(), strict=True))
        self._note_plan(self._context.prepared)

    def run(self, deadline_ns: int, cancellation: Cancellation | None = None) -> RunReport:
        """Run it once. Raises as ExecutionContext.run does, and as ``run_by_deadline``: it is to be abandoned then."""
        report = run_by_deadline(lambda deadline_ns: self._context.run(deadline_ns, cancellation), deadline_ns)
        if self._context.prepared is not self.prepared:
            self._note_plan(self._context.prepared)
        for output in report.outputs:
            self._reported[output.name] = output.dimensions
        return report

    def output(self, index: int) -> Array:
        """What the last run has left, in place."""
        fixed = self._fixed[index]
        if fixed is not None:
            return fixed
        tensor = self._outputs[index]
        dimensions, seen = self._reported.get(tensor.name, (0,)), self._seen[index]
        if seen is None or seen.shape != dimensions:
            seen = self._seen[index] = tensor.view(self._pool, self._offsets[index], dimensions)
        return seen

    def close(self) -> None:
        """Release it on the devices, when a run in flight has ended. Views of its memory stay as they are."""
        self._loaded.unbind(self._context)

    def abandon(self) -> None:
        """Have it released when its run ends, which is in flight."""
        self._loaded.unbind(self._context, 0)

    def _note_plan(self, prepared: PreparedPlan) -> None:
        self.prepared = prepared
        """The plan of the last run."""
        self.planned_edges = planned_edges(prepared, self._kind, self._sizes)
        """What passes in a run, by plan."""
        self.planned_copies = sum(edge.copied_bytes for edge in self.planned_edges)
        """The bytes that devices copy in a run, by plan."""


_OUTPUT = "output "
"""Inputs and outputs have names of their own; an output may be called as an input is."""


class InstancePool:
    """Instances for runs, made when there is none that fits, and kept when they are given back.

    Safe to use from several threads.
    """

    def __init__(
        self,
        loaded: LoadedModel,
        inputs: Sequence[Tensor],
        outputs: Sequence[Tensor],
        has_batch: bool,
        kept: int,
        measure: bool,
    ) -> None:
        """``kept`` is how many may wait to be used again, those that were used last."""
        self._loaded = loaded
        self._inputs = tuple(inputs)
        self._outputs = tuple(outputs)
        self._has_batch = has_batch
        self._kept = kept
        self._measure = measure
        self._kind, self._alignment = _memory_for(loaded.original.sides.values())
        self._lock = threading.Lock()
        self._idle: list[Instance] = []
        self._closed = False
        self._room: dict[str, int] = {}

    def take(
        self,
        shapes: Shapes,
        measure: bool = False,
        priority: Priority | None = None,
        deadline_ns: int = NO_DEADLINE,
    ) -> Instance:
        """An instance that nobody else uses; one that measures where it is asked for, and that runs with a priority.

        Raises as Instance does, and as ``run_by_deadline``.
        """
        measure = measure or self._measure
        with self._lock:
            for index in range(len(self._idle) - 1, -1, -1):
                idle = self._idle[index]
                if idle.shapes == shapes and idle.measures == measure and idle.priority is priority:
                    return self._idle.pop(index)
            room = {t.name: self._room_for(t, shapes) for t in self._outputs if t.is_open}
        make = partial(
            Instance,
            self._loaded,
            self._inputs,
            self._outputs,
            shapes,
            room,
            self._kind,
            self._alignment,
            measure,
            priority,
        )
        return run_by_deadline(lambda _: make(), deadline_ns, self.give_back)

    def give_back(self, instance: Instance) -> None:
        """Keep an instance for later, in place of the one that has not been used for longest."""
        with self._lock:
            if self._closed:
                dropped: Instance | None = instance
            else:
                self._idle.append(instance)
                dropped = self._idle.pop(0) if len(self._idle) > self._kept else None
        if dropped is not None:
            dropped.close()

    def replace(self, instance: Instance, error: OutputTooSmallError, deadline_ns: int = NO_DEADLINE) -> Instance:
        """An instance with more memory, after the outputs of a run did not fit. Raises the error where they should have
        fitted, else as ``take``; the instance is as it was then.
        """
        if not self._learn(instance, error.outputs):
            raise error
        larger = self.take(instance.shapes, instance.measures, instance.priority, deadline_ns)
        instance.close()
        return larger

    def close(self) -> None:
        """Release all of them; those in use when they are given back."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for instance in idle:
            instance.close()

    def _learn(self, instance: Instance, reports: Sequence[OutputReport]) -> bool:
        """Note what outputs need; whether any needs more than an instance has."""
        tensors = {tensor.name: tensor for tensor in self._outputs if tensor.is_open}
        needed = {r.name: tensors[r.name].bytes_of(r.dimensions) for r in reports if r.name in tensors}
        with self._lock:
            for name, size in needed.items():
                self._room[name] = max(size, self._room.get(name, 0))
        return any(size > instance.room[name] for name, size in needed.items())

    def _room_for(self, tensor: Tensor, shapes: Shapes) -> int:
        """What an output takes where only its batch axis is open; else as much as it ever took."""
        if self._has_batch and tensor.dimensions and 0 not in tensor.dimensions[1:]:
            return tensor.bytes_of((shapes[0][0], *tensor.dimensions[1:]))
        return max(GUESS, self._room.get(tensor.name, 0))


def _memory_for(sides: Iterable[Side]) -> tuple[str, int]:
    """The kind of memory that the devices use in place, as many of them as can be, and its alignment."""
    sides = tuple(sides)
    kind = min(ALLOCATED, key=lambda kind: sum(kind not in side.imports for side in sides))
    return kind, round_up(max([ALIGNMENT, *(side.alignment for side in sides)]), ALIGNMENT)
