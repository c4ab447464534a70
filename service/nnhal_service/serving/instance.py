"""Instances of a served model: execution contexts over the framework's own memory, kept for the next request."""

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
from nnhal_service.serving.placement import planned_edges

Shapes = tuple[Dimensions, ...]
"""The dimensions of all inputs, in the model's order."""


class Instance:
    """A loaded model that is bound to memory, for inputs of certain dimensions. It runs once at a time.

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
        """``room`` gives the bytes for outputs of unknown dimensions, ``kind`` the kind of memory. If ``measure``, runs
        report what their steps took. ``priority`` is the priority of its runs, None for the model's own.

        Raises HalError if a device refuses, TransportError if a device is gone, OSError if memory is exhausted.
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
        """Run it once.

        Raises as ExecutionContext.run, and StillRunningError if the run outlasts its deadline: abandon it then.
        """
        if deadline_ns == NO_DEADLINE:
            report = self._context.run(deadline_ns, cancellation)
        else:
            report = run_by_deadline(lambda deadline_ns: self._context.run(deadline_ns, cancellation), deadline_ns)
        if self._context.prepared is not self.prepared:
            self._note_plan(self._context.prepared)
        for output in report.outputs:
            self._reported[output.name] = output.dimensions
        return report

    def output(self, index: int) -> Array:
        """A view of an output of the last run."""
        fixed = self._fixed[index]
        if fixed is not None:
            return fixed
        tensor = self._outputs[index]
        dimensions, seen = self._reported.get(tensor.name, (0,)), self._seen[index]
        if seen is None or seen.shape != dimensions:
            seen = self._seen[index] = tensor.view(self._pool, self._offsets[index], dimensions)
        return seen

    def close(self) -> None:
        """Release it on the devices once its run has ended. Views of its memory stay valid."""
        self._loaded.unbind(self._context)

    def abandon(self) -> None:
        """Release it when its run ends, without waiting for that."""
        self._loaded.unbind(self._context, 0)

    def _note_plan(self, prepared: PreparedPlan) -> None:
        self.prepared = prepared
        """The plan of the last run."""
        self.planned_edges = planned_edges(prepared, self._kind, self._sizes)
        """The edges of a run, by plan."""
        self.planned_copies = sum(edge.copied_bytes for edge in self.planned_edges)
        """The bytes that devices copy in a run, by plan."""


_OUTPUT = "output "
"""Tells outputs from inputs: an output may have the name of an input."""


class InstancePool:
    """Makes an instance if no kept one fits a run, and keeps those given back. Safe to use from several threads."""

    def __init__(
        self,
        loaded: LoadedModel,
        inputs: Sequence[Tensor],
        outputs: Sequence[Tensor],
        has_batch: bool,
        kept: int,
        measure: bool,
    ) -> None:
        """``kept`` is how many instances may wait for their next use; those used longest ago are released."""
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
        """An instance for one run: of certain dimensions, with a priority, and measuring if ``measure`` says so.

        Raises as Instance does, and StillRunningError if making it outlasts the deadline.
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
        return make() if deadline_ns == NO_DEADLINE else run_by_deadline(lambda _: make(), deadline_ns, self.give_back)

    def give_back(self, instance: Instance) -> None:
        """Keep an instance for later; if that is one too many, release the one used longest ago."""
        with self._lock:
            if self._closed:
                dropped: Instance | None = instance
            else:
                self._idle.append(instance)
                dropped = self._idle.pop(0) if len(self._idle) > self._kept else None
        if dropped is not None:
            dropped.close()

    def replace(self, instance: Instance, error: OutputTooSmallError, deadline_ns: int = NO_DEADLINE) -> Instance:
        """An instance with more memory, after the outputs of a run did not fit.

        Raises the error if the outputs should have fitted, else as ``take``; the instance is unchanged then.
        """
        if not self._learn(instance, error.outputs):
            raise error
        larger = self.take(instance.shapes, instance.measures, instance.priority, deadline_ns)
        instance.close()
        return larger

    def close(self) -> None:
        """Release all instances; those in use are released when they are given back."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for instance in idle:
            instance.close()

    def _learn(self, instance: Instance, reports: Sequence[OutputReport]) -> bool:
        """Note the sizes that outputs need; return whether any is larger than an instance's."""
        tensors = {tensor.name: tensor for tensor in self._outputs if tensor.is_open}
        needed = {r.name: tensors[r.name].bytes_of(r.dimensions) for r in reports if r.name in tensors}
        with self._lock:
            for name, size in needed.items():
                self._room[name] = max(size, self._room.get(name, 0))
        return any(size > instance.room[name] for name, size in needed.items())

    def _room_for(self, tensor: Tensor, shapes: Shapes) -> int:
        """The bytes of an output: exact if only its batch axis is unknown, else the most that it ever took."""
        if self._has_batch and tensor.dimensions and 0 not in tensor.dimensions[1:]:
            return tensor.bytes_of((shapes[0][0], *tensor.dimensions[1:]))
        return max(GUESS, self._room.get(tensor.name, 0))


def _memory_for(sides: Iterable[Side]) -> tuple[str, int]:
    """The kind of memory that the most devices import, and its alignment."""
    sides = tuple(sides)
    kind = min(ALLOCATED, key=lambda kind: sum(kind not in side.imports for side in sides))
    return kind, round_up(max([ALIGNMENT, *(side.alignment for side in sides)]), ALIGNMENT)
