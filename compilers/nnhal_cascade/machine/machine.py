"""The interpreter of command streams."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from nnhal.arrays import Array
from nnhal.resolved import ResolvedModel
from nnhal.types.layout import ELEMENT_TYPES
from nnhal_cascade.geometry.box import Box, Interval, Shape, whole
from nnhal_cascade.graph.cascader_graph import CascaderGraph, CascaderTensor, PartKind
from nnhal_cascade.graph.running_sums import sums_up
from nnhal_cascade.hardware.memory import System
from nnhal_cascade.machine.arena import ArenaRegion, Buffer, Owner
from nnhal_cascade.machine.constants import Slots, image_of
from nnhal_cascade.machine.errors import StreamError
from nnhal_cascade.machine.meter import Meter, RunMeasurement
from nnhal_cascade.machine.part_program import Given, Programs
from nnhal_cascade.machine.tags import ByteOwners
from nnhal_cascade.performance.price import StripePlaces
from nnhal_cascade.performance.stripe_pricer import StripePricer
from nnhal_cascade.plans.plan import WeightsIn
from nnhal_cascade.stream.commands import (
    AllocateConstants,
    AllocateTensor,
    BeginPlan,
    CommandStream,
    CopyConstants,
    LoadInput,
    ReleaseConstants,
    ReleaseTensor,
    Roll,
    RunStripe,
    StoreOutput,
    graph_digest,
)

Feed = Callable[[Box], Array]
"""Hands over a box of an input: [rows, columns, channels]. It is asked for each box when a stripe needs it."""


class Machine:
    """An NPU that is loaded with a stream. It holds no state between runs, so several threads may use it."""

    def __init__(
        self,
        stream: CommandStream,
        graph: CascaderGraph,
        model: ResolvedModel,
        system: System,
        checked: bool = False,
    ) -> None:
        """``checked`` looks at the owner of every byte that is read.

        Raises:
            StreamError: the stream is for another graph, or for a system with larger memories.
            ValueError: the graph is not the model's.
        """
        if stream.digest != graph_digest(graph):
            raise StreamError(
                f"the stream is for the graph {stream.digest.hex()}, the model's is {graph_digest(graph).hex()}"
            )
        regions = {region.name: region.size for region in system.regions}
        for name, size in stream.arenas:
            if name not in regions:
                raise StreamError(f"the stream uses the region {name}, {system.name} has {', '.join(regions)}")
            if size > regions[name]:
                raise StreamError(f"the stream uses {size} bytes of {name}, which has {regions[name]}")
        self.stream, self.graph, self.model, self.system, self.checked = stream, graph, model, system, checked
        self._images: dict[int, Array] = {}
        self.operands = Programs(graph, model)
        self.programs = [self.operands.program(part) for part in graph.parts]
        self.pricer = StripePricer(graph, system)
        main = model.model.main
        self.elements = [
            np.dtype(np.int32) if sums_up(graph, tensor.index) else ELEMENT_TYPES[main.operands[tensor.operand].type]
            for tensor in graph.tensors
        ]
        self.owners = ByteOwners(
            [(tensor.name, tensor.shape) for tensor in graph.tensors],
            [(f"constants of {part.name}", self.constants_shape(part.index)) for part in graph.parts],
        )

    def run(
        self, inputs: Sequence[Array | Feed | None], check: Callable[[], object] = lambda: None
    ) -> tuple[list[Array], RunMeasurement]:
        """Run the stream on the model's inputs, and return its outputs and what the run took.

        An input that no operation reads may be None. Of one that is streamed a ``Feed`` is asked for each element once,
        in the order in which they lie in the input, unless the stream computes values twice. ``check`` is called before
        each stripe, and ends the run if it raises.

        Raises:
            MachineError: the stream is at fault.
            HalError: of ``check``.
        """
        main = self.model.model.main
        given = zip(main.input_indexes, inputs, strict=True)
        run = _Run(self, {operand: values for operand, values in given if values is not None}, check)
        run.execute()
        return [run.output(operand) for operand in main.output_indexes], run.meter.measurement()

    def constants_shape(self, part: int) -> Shape:
        """Return the shape of the bytes of a part's constants: [1, channels, bytes of a channel]."""
        constants, output = self.graph.parts[part].constants, self.graph.parts[part].output
        width = constants.bytes_of(Interval(0, 1)) if constants else 0
        return Shape(1, self.graph.tensors[output].shape.channels, width)

    def image(self, part: int) -> Array:
        """Return the image of a part's constants."""
        if part not in self._images:
            constants = self.operands.constants(self.graph.parts[part])
            self._images[part] = image_of(constants, self.constants_shape(part))
        return self._images[part]


class _Run:
    """One run: an arena, and what is in it."""

    def __init__(self, machine: Machine, inputs: Mapping[int, Array | Feed], check: Callable[[], object]) -> None:
        self._machine, self._inputs, self._check = machine, inputs, check
        self._regions = {name: ArenaRegion(name, size, machine.checked) for name, size in machine.stream.arenas}
        self._tensors: dict[int, Buffer] = {}
        self._constants: dict[int, Slots] = {}
        self._outputs: dict[int, Array] = {}
        self.meter = Meter(machine.pricer, machine.system)

    def execute(self) -> None:
        """Execute all commands."""
        for number, command in enumerate(self._machine.stream.commands):
            try:
                _HANDLERS[type(command)](self, command)
            except StreamError as error:
                raise StreamError(f"command {number} ({type(command).__name__}): {error}") from error

    def output(self, operand: int) -> Array:
        """Return an output of the network."""
        tensor = self._machine.graph.tensor_of[operand]
        if tensor not in self._outputs:
            name = self._machine.graph.tensors[tensor].name
            raise StreamError(f"the stream does not store {name}, which is an output of the model")
        return self._outputs[tensor].reshape(self._machine.operands.dimensions(operand))

    def _begin_plan(self, _: BeginPlan) -> None:
        self.meter.begin_plan()

    def _allocate_tensor(self, command: AllocateTensor) -> None:
        index = self._known(command.tensor, self._machine.graph.tensors, "tensor")
        tensor = self._machine.graph.tensors[index]
        if index in self._tensors:
            raise StreamError(f"{tensor.name} has a buffer already")
        owner = Owner(index, tensor.name, tensor.shape)
        buffer = Buffer(
            owner,
            self._machine.elements[index],
            self._region(command.region),
            command.address,
            command.extents,
            self._machine.owners,
        )
        self._tensors[index] = buffer
        self.meter.allocated(buffer.region, buffer.end)

    def _allocate_constants(self, command: AllocateConstants) -> None:
        parts = self._machine.graph.parts
        index = self._known(command.part, parts, "part")
        name = f"constants of {parts[index].name}"
        if parts[index].constants is None or index in self._constants:
            raise StreamError(f"a buffer for the {name}, which has {'none' if index not in self._constants else 'one'}")
        owner = Owner(len(self._machine.graph.tensors) + index, name, self._machine.constants_shape(index))
        slots = Slots(
            owner,
            self._machine.image(index),
            self._region(command.region),
            command.address,
            command.bytes,
            command.slots,
            self._machine.owners,
        )
        self._constants[index] = slots
        self.meter.allocated(slots.region, slots.end)

    def _load(self, command: LoadInput) -> None:
        tensor = self._machine.graph.tensors[self._known(command.tensor, self._machine.graph.tensors, "tensor")]
        box = whole(tensor.shape)
        values = self._handed_over(tensor, box)
        self.meter.lived(self._buffer(tensor.index).write(box, values, "load"))

    def _handed_over(self, tensor: CascaderTensor, box: Box) -> Array:
        """A box of an input of the network, from the client."""
        if tensor.operand not in self._inputs:
            raise StreamError(f"a load of {tensor.name}, which is no input that the run is given")
        given = self._inputs[tensor.operand]
        values = given(box) if callable(given) else given
        expected = box.shape if callable(given) else tensor.shape
        if values.size != prod(expected):
            raise StreamError(f"a load of {tensor.name} of {values.size} elements, expected {prod(expected)}")
        values = values.reshape(expected)
        return values if callable(given) else values[tuple(slice(*interval) for interval in box)]

    def _store(self, command: StoreOutput) -> None:
        tensor = self._machine.graph.tensors[self._known(command.tensor, self._machine.graph.tensors, "tensor")]
        self._outputs[tensor.index] = self._buffer(tensor.index).read(whole(tensor.shape), "store").copy()

    def _copy(self, command: CopyConstants) -> None:
        slots = self._slots(command.part)
        size = slots.copy(command.channels, command.slot)
        self.meter.copied(command.part, command.slot, slots.region, size)

    def _run_stripe(self, command: RunStripe) -> None:
        self._check()
        index = self._known(command.part, self._machine.graph.parts, "part")
        part = self._machine.graph.parts[index]
        if len(command.inputs) != len(part.inputs):
            raise StreamError(f"a stripe of {part.name} with {len(command.inputs)} inputs, expected {len(part.inputs)}")
        sources = [self._buffer(each.tensor) for each in part.inputs]
        target = self._buffer(part.output)
        target.require(command.output, part.name)
        given = [Given(box, source.read(box, part.name)) for source, box in zip(sources, command.inputs, strict=True)]
        if part.kind is PartKind.FEED:
            tensor = self._machine.graph.tensors[part.output]
            given = [Given(command.output, self._handed_over(tensor, command.output))]
        places = StripePlaces(
            tuple(source.region for source in sources), target.region, self._constants_place(command, part.name)
        )
        values = self._machine.programs[index].run(command.output, given)
        self.meter.lived(target.write(command.output, values, part.name))
        shapes = tuple(box.shape for box in command.inputs)
        slot = command.slot if command.weights in (WeightsIn.RESIDENT, WeightsIn.DOUBLE_BUFFERED) else None
        self.meter.ran(index, command.output.shape, shapes, places, slot)

    def _constants_place(self, command: RunStripe, name: str) -> str:
        """The region of the constants of a stripe; those in the arena are checked."""
        if (self._machine.graph.parts[command.part].constants is None) != (command.weights == WeightsIn.NONE):
            raise StreamError(f"a stripe of {name} with weights '{command.weights}'")
        if command.weights == WeightsIn.NONE:
            return ""
        if command.weights == WeightsIn.STREAMED:
            return self._machine.system.constants.name
        slots = self._slots(command.part)
        slots.check(command.output.channels, command.slot, name)
        return slots.region

    def _roll(self, command: Roll) -> None:
        self.meter.lived(-self._buffer(command.tensor).roll(command.axis, command.dead))

    def _release_tensor(self, command: ReleaseTensor) -> None:
        self.meter.lived(-self._buffer(command.tensor).release())
        del self._tensors[command.tensor]

    def _release_constants(self, command: ReleaseConstants) -> None:
        self._slots(command.part)
        del self._constants[command.part]

    def _region(self, name: str) -> ArenaRegion:
        if name not in self._regions:
            raise StreamError(f"the region {name}, of which the stream uses nothing")
        return self._regions[name]

    def _buffer(self, tensor: int) -> Buffer:
        if tensor not in self._tensors:
            index = self._known(tensor, self._machine.graph.tensors, "tensor")
            raise StreamError(f"{self._machine.graph.tensors[index].name} has no buffer")
        return self._tensors[tensor]

    def _slots(self, part: int) -> Slots:
        if part not in self._constants:
            index = self._known(part, self._machine.graph.parts, "part")
            raise StreamError(f"the constants of {self._machine.graph.parts[index].name} have no buffer")
        return self._constants[part]

    def _known(self, index: int, things: Sequence[object], what: str) -> int:
        if not 0 <= index < len(things):
            raise StreamError(f"{what} {index}, the graph has {len(things)}")
        return index


_HANDLERS: Mapping[type[Any], Callable[[_Run, Any], None]] = {
    BeginPlan: _Run._begin_plan,
    AllocateTensor: _Run._allocate_tensor,
    AllocateConstants: _Run._allocate_constants,
    LoadInput: _Run._load,
    StoreOutput: _Run._store,
    CopyConstants: _Run._copy,
    RunStripe: _Run._run_stripe,
    Roll: _Run._roll,
    ReleaseTensor: _Run._release_tensor,
    ReleaseConstants: _Run._release_constants,
}
"""A run holds none of these: bound to it, they would keep its memory until the next garbage collection."""
