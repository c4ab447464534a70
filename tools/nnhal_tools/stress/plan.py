"""Requests: where inputs and outputs lie, how their execution must end, and what it may have changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from random import Random

import numpy as np

from nnhal.arrays import Array, Bytes
from nnhal.types import (
    DataLocation,
    ErrorStatus,
    ExecutionConfig,
    ExecutionResult,
    Request,
    RequestArgument,
    RequestMemoryPool,
    Timing,
)
from nnhal.types.layout import ELEMENT_TYPES, Dimensions, combine
from nnhal_tools.stress.buffers import HeldBuffer, PreparedSpecimen, Users
from nnhal_tools.stress.memory import KINDS, Block, BlockKind, create_block
from nnhal_tools.stress.outcomes import ANY, FAILURE, INVALID, MISSED, OK, REFUSED, Statuses, require
from nnhal_tools.stress.specimens import Sample, Specimen

_SIZES = (1, 2, 3, 4, 4, 4, 7)
_GUARD = 16
_PATTERN = 0xA5
_GIVEN_DIMENSIONS = 0.3
_LOOP_TIMEOUTS_NS = (1_000_000, 5_000_000, 20_000_000)


@dataclass(frozen=True, slots=True)
class ArgumentRange:
    """The range of an argument in a memory block, which is given by its index."""

    block: int
    offset: int
    length: int
    padding: int

    @property
    def whole(self) -> slice:
        """The range with its padding."""
        return slice(self.offset, self.offset + self.length + self.padding)

    @property
    def value(self) -> slice:
        """The range without its padding."""
        return slice(self.offset, self.offset + self.length)


class RequestPlan:
    """One request to a prepared model, for any number of executions. Inputs and output may lie in device buffers."""

    def __init__(
        self,
        prepared: PreparedSpecimen,
        random: Random,
        buffers: Mapping[int, HeldBuffer] | None = None,
        tiny: bool = False,
        stated: bool = False,
    ) -> None:
        """``buffers`` are by position. ``tiny`` makes an output of unknown size too small, ``stated`` states it."""
        self.prepared = prepared
        self.specimen: Specimen = prepared.specimen
        self.buffers = dict(buffers or {})
        self.size = self._size(random)
        self.tiny = tiny and self.specimen.is_open and self._output not in self.buffers
        self.uses = Users(tuple(dict.fromkeys(self.buffers.values())))
        self.config = ExecutionConfig(
            random.random() < 0.3, random.choice(_LOOP_TIMEOUTS_NS) if self.specimen.loops else -1
        )
        self.slots, self.blocks = self._place(random)
        self._snapshots: list[Bytes] = []
        self._gone: set[int] = set()
        self._own_uses = 0
        self.request = self._request(random, stated)
        self.sample: Sample
        self.refill(random)

    @property
    def _output(self) -> int:
        return len(self.specimen.inputs)

    @property
    def output_buffer(self) -> HeldBuffer | None:
        """The device buffer that is written; None if the output lies in a pool."""
        return self.buffers.get(self._output)

    def __str__(self) -> str:
        where = [
            f"buffer {self.buffers[position].remote.token}"
            if position in self.buffers
            else self.blocks[self.slots[position].block].kind.value
            for position in range(self._output + 1)
        ]
        extra = f", size {self.size}{', tiny output' if self.tiny else ''}" if self.specimen.is_open else ""
        return f"{self.specimen.name} ({' + '.join(where[:-1])} -> {where[-1]}{extra})"

    def refill(self, random: Random) -> None:
        """Write new inputs, and a pattern that is not the result to the output."""
        drawn = list(self.specimen.draw(random, self.size))
        for block in self.blocks:
            block.write(0, np.full(block.size, _PATTERN, np.uint8))
        for position in range(self._output):
            slot = self.slots.get(position)
            if slot is not None:
                data = np.ascontiguousarray(drawn[position]).reshape(-1).view(np.uint8)
                self.blocks[slot.block].write(slot.offset, data)
        self._snapshots = [block.read() for block in self.blocks]
        self._drawn = tuple(drawn)
        self.look()

    def truncate(self, random: Random) -> bool:
        """Truncate an open file of an argument, which can no longer be checked. Returns False if there is none."""
        indexes = sorted({slot.block for slot in self.slots.values()})
        files = [index for index in indexes if self.blocks[index].kind is BlockKind.OPEN_FILE]
        if files:
            gone = random.choice(files)
            self.blocks[gone].truncate()
            self._gone.add(gone)
        return bool(files)

    def look(self) -> None:
        """Note the content of device buffers, just before an execution."""
        inputs = list(self._drawn)
        for position in range(self._output):
            buffer = self.buffers.get(position)
            if buffer is not None and buffer.content is not None and buffer.has_role(self.prepared, position):
                inputs[position] = buffer.content
        self.sample = self.specimen.evaluate(tuple(inputs)) if self._shapes_agree() else Sample(tuple(inputs), None)

    def obstacles(self) -> Statuses:
        """The statuses with which the buffers oblige every execution to fail; empty if they do not."""
        found: Statuses = frozenset()
        for position, buffer in self.buffers.items():
            writes = position == self._output
            shared = writes and any(other is buffer for at, other in self.buffers.items() if at != position)
            if buffer.released or not buffer.has_role(self.prepared, position) or shared:
                found |= INVALID
            elif writes:
                if combine(buffer.dimensions, self.specimen.dimensions(position, self.size)) is None:
                    # If the request is silent, only the execution finds out what does not fit the buffer.
                    found |= INVALID if self.states_output else FAILURE
            elif not buffer.readable() & OK:
                found |= buffer.readable()
            elif not self._agrees(position):
                found |= INVALID if buffer.readable() == OK else ANY
        return found

    @property
    def states_output(self) -> bool:
        """True if model and request together determine the size of the output."""
        return 0 not in (combine(self.specimen.output.dimensions, self.request.outputs[0].dimensions) or ())

    def doubts(self) -> Statuses:
        """Further statuses that are allowed because the state of the buffers is uncertain."""
        found: Statuses = frozenset()
        for position, buffer in self.buffers.items():
            if position < self._output:
                found |= buffer.readable() - OK if buffer.readable() & OK else frozenset()
            elif buffer.users:
                found |= REFUSED
        return found

    def expected(self) -> Statuses:
        """Return how an execution may end if the request has no fault but its buffers."""
        end = self.sample.statuses
        if any(buffer.wild or buffer.users for buffer in self.buffers.values()):
            end |= ANY | (MISSED if self.specimen.loops else frozenset())
        return (self.obstacles() or end) | self.doubts()

    def verify(self, result: ExecutionResult | None) -> None:
        """Check the result and the output of an execution that ended with NONE. Raises Violation."""
        if result is not None:
            self._verify_result(result)
        slot = self.slots.get(self._output)
        if slot is not None and slot.block not in self._gone and not self.tiny and not self._is_wild():
            self._verify_output(self.blocks[slot.block].read()[slot.value])
        self.verify_untouched()

    def verify_untouched(self) -> None:
        """Check that only outputs and padding have changed. Raises Violation."""
        for index, (block, before) in enumerate(zip(self.blocks, self._snapshots, strict=True)):
            if index in self._gone:
                continue
            after = block.read()
            changed = after != before
            for position, slot in self.slots.items():
                if slot.block == index:
                    changed[slot.whole if position == self._output else self._padding(slot)] = False
            if changed.any():
                where = np.flatnonzero(changed)
                require(False, f"{self}: {len(where)} bytes from byte {where[0]} of block {index} were changed")

    def begin(self) -> None:
        """Note that a launch was accepted."""
        self.uses.begin()
        self._own_uses = 1

    def end(self, status: ErrorStatus) -> None:
        """Note that the launch has ended."""
        raced = [buffer.raced for buffer in self.uses.buffers]
        self.conclude(status, ran=True)
        for buffer, was in zip(self.uses.buffers, raced, strict=True):
            buffer.raced = was  # launches in a chain do not race for a buffer
        self._own_uses = 0
        self.uses.end()

    def conclude(self, status: ErrorStatus, ran: bool) -> None:
        """Note what an execution did to the output's buffer. ``ran`` is false if it may not have run."""
        buffer = self.output_buffer
        if buffer is None or buffer.released or not buffer.has_role(self.prepared, self._output):
            return
        if status == ErrorStatus.NONE and self.sample.expected is not None and not self._is_wild():
            buffer.became(self.sample.expected)
        elif status == ErrorStatus.NONE:
            buffer.wild = True
        elif ran:
            buffer.spoiled()
        else:
            buffer.refused()
        buffer.raced = buffer.raced or buffer.users > 0

    def _size(self, random: Random) -> int:
        for buffer in self.buffers.values():
            if self.specimen.is_open and buffer.content is not None and random.random() < 0.9:
                return int(buffer.content.shape[0])
            if not buffer.is_open:
                return buffer.dimensions[0]
        return random.choice(_SIZES)

    def _place(self, random: Random) -> tuple[dict[int, ArgumentRange], list[Block]]:
        positions = [position for position in range(self._output + 1) if position not in self.buffers]
        count = random.randint(1, len(positions)) if positions else 0
        ends = [0] * count
        slots = {}
        for position in positions:
            index = random.randrange(count)
            operand = self.specimen.operand(position)
            length = ELEMENT_TYPES[operand.type].itemsize * prod(self.specimen.dimensions(position, self.size))
            if position == self._output and self.tiny:
                length = random.randrange(1, length)
            offset = ends[index] + random.choice((0, _GUARD, 64 - ends[index] % 64))
            slots[position] = ArgumentRange(index, offset, length, random.choice((0, 0, 64)))
            ends[index] = -(-(slots[position].whole.stop) // 4) * 4
        kinds = [random.choice(KINDS) for _ in range(count)]
        return slots, [create_block(end + _GUARD, kind, random) for end, kind in zip(ends, kinds, strict=True)]

    def _request(self, random: Random, stated: bool) -> Request:
        pools: list[RequestMemoryPool] = [block.memory for block in self.blocks]
        arguments = []
        for position in range(self._output + 1):
            dimensions: Dimensions = ()
            is_open = 0 in self.specimen.operand(position).dimensions
            needed = is_open and (position < self._output or stated)
            if needed or (random.random() < _GIVEN_DIMENSIONS and not self.tiny):
                dimensions = self.specimen.dimensions(position, self.size)
            if position in self.buffers:
                location = DataLocation(len(pools))
                pools.append(self.buffers[position].remote.token)
            else:
                slot = self.slots[position]
                location = DataLocation(slot.block, slot.offset, slot.length, slot.padding)
            arguments.append(RequestArgument(location, dimensions))
        return Request(tuple(arguments[:-1]), tuple(arguments[-1:]), tuple(pools))

    def _agrees(self, position: int) -> bool:
        content = self.buffers[position].content
        return content is None or content.shape == self.specimen.dimensions(position, self.size)

    def _shapes_agree(self) -> bool:
        return all(self._agrees(position) for position in self.buffers if position < self._output)

    def _is_wild(self) -> bool:
        inputs = [buffer for position, buffer in self.buffers.items() if position < self._output]
        return any(b.wild or b.raced or b.content is None or b.users > self._own_uses for b in inputs)

    def _padding(self, slot: ArgumentRange) -> slice:
        return slice(slot.offset + slot.length, slot.whole.stop)

    def _verify_output(self, data: Bytes) -> None:
        expected = self.sample.expected
        require(expected is not None, f"{self}: NONE, expected {self.sample.statuses}")
        assert expected is not None
        got = data.view(ELEMENT_TYPES[self.specimen.output.type]).reshape(expected.shape)
        require(
            bool(np.array_equal(got, expected)),
            f"{self}: wrong output {_brief(got)}, expected {_brief(expected)} from {list(map(_brief, self._drawn))}",
        )

    def _verify_result(self, result: ExecutionResult) -> None:
        shapes = result.output_shapes
        require(result.output_sufficient_size != self.tiny, f"{self}: {result} for an output of this size")
        argument = self.request.outputs[0].dimensions
        stated = combine(self.specimen.output.dimensions, argument) or ()
        require(bool(shapes) or 0 not in stated, f"{self}: no output shapes, though the request leaves them unknown")
        for shape in shapes:
            expected = self.specimen.dimensions(self._output, self.size)
            exact = shape.dimensions == expected
            rough = self.tiny and combine(shape.dimensions, expected) is not None
            require(exact or rough or self._is_wild(), f"{self}: output shape {shape}, expected {expected}")
        if not self.config.measure_timing or self.tiny:
            require(result.timing == Timing(), f"{self}: {result.timing}, though timing was not requested")


def _brief(array: Array) -> str:
    return f"{array.shape}{array.reshape(-1)[:4].tolist()}…"


def open_files(plan: RequestPlan) -> list[Block]:
    """The blocks that may still be truncated."""
    return [block for block in plan.blocks if block.kind is BlockKind.OPEN_FILE]
