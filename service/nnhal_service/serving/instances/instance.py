"""An instance of a served model: an execution context over memory of the framework and of clients."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from nnhal.arrays import Array
from nnhal.descriptor import Descriptor
from nnhal.memory.arena import round_up
from nnhal.tensors import ClientMemory, Tensor, TensorMemory
from nnhal.types import NO_DEADLINE, DataLocation, Memory, Priority
from nnhal.types.layout import Dimensions
from nnhal_service.runtime import (
    RunReport,
    TensorBinding,
)
from nnhal_service.runtime.run.cancellation import Cancellation
from nnhal_service.runtime.run.deadlines import run_by_deadline
from nnhal_service.serving.instances.bindable_model import (
    OUTPUT,
    AwaitedAnswer,
    BindableModel,
    InstanceRun,
    without_empty_axes,
)
from nnhal_service.serving.instances.in_place import NO_PLACES, Places
from nnhal_service.serving.instances.instance_memory import InstanceMemory
from nnhal_service.serving.loop import ServingLoop
from nnhal_service.serving.requests.client_memory import Place, PlacedTensor, TensorData
from nnhal_service.serving.requests.planned_run import RunAccount
from nnhal_service.serving.requests.request import ShownOutputs

Shapes = tuple[Dimensions, ...]
"""The dimensions of all inputs, in the model's order."""
NOT_COUNTED = InstanceMemory()
NO_ROOM: Mapping[str, int] = {}


class AnswerWatch:
    """Watches the channel of a bound model in the loop, for all of its runs: to watch it anew for each would cost more
    than the run. Only the loop uses it.

    It watches a duplicate of the descriptor, since threads may close the channel itself. It closes itself when the
    channel is closed, at either end.
    """

    def __init__(self, loop: ServingLoop, exchange: AwaitedAnswer) -> None:
        """Watch the channel of an exchange. Raises OSError if there is no descriptor left."""
        self._loop = loop.asyncio
        self.exchange: AwaitedAnswer | None = exchange
        """Whose channel it watches; None once closed."""
        self._descriptor = Descriptor(os.dup(exchange.fileno()))
        self.answered: Callable[[], None] | None = None
        """Called once, when the run that was started last can be finished without waiting; set it when one is."""
        self._timer: asyncio.TimerHandle | None = None
        self._loop.add_reader(self._descriptor.fileno(), self._readable)
        os.set_blocking(self._descriptor.fileno(), True)  # the loop changes that, for the channel's own descriptor too

    def wait_at_most(self, seconds: float, late: Callable[[], None]) -> None:
        """Call ``late`` in place of what is expected if that does not come in time; the watch is closed then."""
        self._timer = self._loop.call_later(seconds, self._is_late, late)

    def close(self) -> None:
        if self.exchange is not None:
            self.exchange = self.answered = None
            self._loop.remove_reader(self._descriptor.fileno())
            self._descriptor.close()

    def _readable(self) -> None:
        answered, self.answered = self.answered, None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if answered is None:
            self.close()  # there is nothing to answer, so that the channel has been closed
        else:
            answered()

    def _is_late(self, late: Callable[[], None]) -> None:
        self.close()
        late()


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
        """True if it must not run again: a device has lost memory of a client, or may still write to its own."""
        self.uses = 0
        """How often it was given back."""
        self._outputs = tuple(outputs)
        self._reported: dict[str, Dimensions] = {}
        placed = _placed(inputs, outputs, places)
        sizes = _sizes(inputs, outputs, shapes, room)
        own = {name: byte_size for name, byte_size in sizes.items() if name not in placed}
        locations, pools = self._allocate(model, own, placed, memory)
        self.inputs = [
            None if t.name in placed else t.view(self._memory.pool_of(t.name), locations[t.name].offset, shape)
            for t, shape in zip(inputs, shapes, strict=True)
        ]
        self.filled_bytes = sum(view.nbytes for view in self.inputs if view is not None)
        self.output_bytes = sum(byte_size for name, byte_size in own.items() if name.startswith(OUTPUT))
        self.watch: AnswerWatch | None = None
        """Watches for the answers of its runs; only the loop uses it."""
        self._placed = [placed.get(OUTPUT + t.name) for t in outputs]
        self._fixed: list[Array | None] = [
            None if t.is_open or place is not None else self._view(t, t.dimensions)
            for t, place in zip(outputs, self._placed, strict=True)
        ]
        self._seen: list[Array | None] = [None] * len(self._fixed)
        self.has_fixed_outputs = all(view is not None for view in self._fixed)
        """True if each run leaves its outputs in the same places, of this memory, and in the same shapes."""
        self.shown: dict[tuple[str, ...], ShownOutputs] = {}
        """Outputs as clients see them, by the names that requests give, once they were shown, if they are fixed."""
        self._accounted: RunAccount | None = None
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
        self.start: Callable[[int, Cancellation | None], InstanceRun | None] = self._bound.start
        """Starts a run and returns at once, if that can be; else None. Raises as ExecutionContext.start."""

    def _allocate(
        self, model: BindableModel, own: Mapping[str, int], placed: Mapping[str, Place], memory: InstanceMemory
    ) -> tuple[dict[str, DataLocation], list[Memory]]:
        """Return where all tensors lie, and in which pools: those of clients, and its ``own``.

        Raises as ``__init__`` does.
        """
        pools: list[Memory] = [place.as_memory() for place in placed.values()]
        locations = {
            name: DataLocation(index, 0, place.byte_size) for index, (name, place) in enumerate(placed.items())
        }
        self.counted_bytes = memory.take(sum(round_up(size, model.alignment) for size in own.values()))
        try:
            self._memory = TensorMemory(
                {name: size for name, size in own.items() if not name.startswith(OUTPUT)},
                {name: size for name, size in own.items() if name.startswith(OUTPUT)},
                partial(ClientMemory(model.memory_kind, model.alignment).create, name="nnhal-serving"),
                model.alignment,
            )
        except BaseException:
            memory.give_back(self.counted_bytes)
            raise
        if own:  # views of outputs are kept longest, in responses
            self._uncount = memory.until_unmapped(self._memory.opened[-1], self.counted_bytes)
        for name, location in self._memory.locations.items():
            locations[name] = replace(location, pool_index=len(pools) + location.pool_index)
        return locations, pools + self._memory.pools

    def _view(self, output: Tensor, dimensions: Dimensions) -> Array:
        location = self._memory.locations[OUTPUT + output.name]
        return output.view(self._memory.pool_of(OUTPUT + output.name), location.offset, dimensions)

    def run(self, deadline_ns: int, cancellation: Cancellation | None = None) -> RunReport:
        """Run it once.

        Raises as ExecutionContext.run, and StillRunningError if the run outlasts its deadline: abandon it then.
        """
        if deadline_ns == NO_DEADLINE:
            report = self._bound.run(deadline_ns, cancellation)
        else:
            report = run_by_deadline(lambda deadline_ns: self._bound.run(deadline_ns, cancellation), deadline_ns)
        return self.note(report)

    def recover(self, failed: InstanceRun, deadline_ns: int) -> RunReport:
        """Recover a run that was started and has failed. Raises as ``run``."""
        return self.note(run_by_deadline(lambda _: failed.recover(), deadline_ns))

    def account(self, report: RunReport, handed_bytes: int) -> RunAccount:
        """Return what its last run did, and what was copied in it.

        That of its inputs is included, and ``handed_bytes`` of outputs, which responses copy from its memory.
        """
        planned, accounted, by_hand = self._bound.planned, self._accounted, self.filled_bytes + handed_bytes
        if report.steps or report.fell_back:  # measured: it says itself
            return RunAccount.of(planned, report, by_hand)
        if accounted is None or accounted.planned is not planned or accounted.by_hand != by_hand:
            accounted = self._accounted = RunAccount.of(planned, report, by_hand)
        return accounted

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
            seen = self._seen[index] = self._view(tensor, dimensions)
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

    def note(self, report: RunReport) -> RunReport:
        """Note what is reported of a run that was started here. It is nothing new unless the run fell back, or a device
        has reported outputs.
        """
        self.is_spent = self.is_spent or (report.fell_back and bool(self.places.all))
        for output in report.outputs:
            self._reported[output.name] = output.dimensions
        return report


def _placed(inputs: Sequence[Tensor], outputs: Sequence[Tensor], places: Places) -> dict[str, Place]:
    """The places in memory of clients, of inputs by name, and of outputs by OUTPUT and name."""
    return {
        **{t.name: place for t, place in zip(inputs, places.inputs, strict=False) if place is not None},
        **{OUTPUT + t.name: place for t, place in zip(outputs, places.outputs, strict=False) if place is not None},
    }


def _sizes(
    inputs: Sequence[Tensor], outputs: Sequence[Tensor], shapes: Shapes, room: Mapping[str, int]
) -> dict[str, int]:
    """The bytes of inputs by name, and of outputs by OUTPUT and name."""
    return {
        **{t.name: t.bytes_of(without_empty_axes(shape)) for t, shape in zip(inputs, shapes, strict=True)},
        **{OUTPUT + t.name: t.byte_size or room[t.name] for t in outputs},
    }
