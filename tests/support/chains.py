"""Wired chains of additions, over real devices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nnhal.link.channel import channel_from
from nnhal.memory import create_ashmem, open_pool
from nnhal.memory.mapping import Region
from nnhal.remote import RemoteDevice, RemoteExecution
from nnhal.remote.execution import burst_run
from nnhal.types import NO_DEADLINE, ErrorStatus, ExecutionConfig, Request
from nnhal.v1 import burst_pb2
from nnhal_service.runtime.run.wiring import Bells, Stragglers, Wiring
from tests.support.additions import TENSOR_BYTES, addition_model, argument


@dataclass(frozen=True)
class Sum:
    """A step that adds two values: those of earlier steps by their numbers, or the chain's input, which is -1."""

    first: int
    second: int


LINE = (Sum(-1, -1), Sum(0, -1), Sum(1, -1), Sum(2, -1))
FORK = (Sum(-1, -1), Sum(0, -1), Sum(0, 0), Sum(0, -1))
JOIN = (Sum(-1, -1), Sum(-1, -1), Sum(0, 1), Sum(2, 0))
DIAMOND = (Sum(-1, -1), Sum(0, -1), Sum(0, 0), Sum(1, 2))
APART = (Sum(-1, -1), Sum(-1, -1), Sum(-1, -1))
SHAPES = {"line": LINE, "fork": FORK, "join": JOIN, "diamond": DIAMOND, "apart": APART, "two": LINE[:2]}


class Chain:
    """Additions that are wired over devices in turn; its caller is this process."""

    def __init__(self, devices: Sequence[RemoteDevice], sums: Sequence[Sum] = LINE, measures: bool = False) -> None:
        self.sums = sums
        self.memory = create_ashmem((len(sums) + 1) * TENSOR_BYTES)
        self._pool = open_pool(self.memory, writable=True)
        self._page = create_ashmem(8)
        self.cancelled = Region(self._page.descriptor, 8).bytes().view(np.int64)
        config = ExecutionConfig(measure_timing=measures)
        self.executions: list[RemoteExecution] = []
        for number, each in enumerate(sums):
            places = [argument((index + 1) * TENSOR_BYTES) for index in (each.first, each.second, number)]
            request = Request(tuple(places[:2]), (places[2],), (self.memory,))
            prepared = devices[number % len(devices)].prepare_model(addition_model())
            self.executions.append(prepared.create_reusable_execution(request, config))
        self.wire()

    def wire(self) -> None:
        needs = [tuple(sorted({n for n in (each.first, each.second) if n >= 0})) for each in self.sums]
        named = [(f"device {number}", execution) for number, execution in enumerate(self.executions)]
        self.wiring = Wiring(named, Bells(needs), Stragglers(), self._page.descriptor)
        self.caller = channel_from(self.wiring.take_caller_end())

    def exchange(self, message: bytes) -> burst_pb2.BurstAnswer:
        self.caller.send(message)
        return burst_pb2.BurstAnswer.FromString(self.caller.receive())

    def run(self, deadline_ns: int = NO_DEADLINE) -> burst_pb2.BurstAnswer:
        return self.exchange(burst_run(self.wiring.execution, deadline_ns))

    def check(self, value: float) -> None:
        """Run with a new input, and check that each step has run after those that it needs."""
        self.fill(value)
        assert ErrorStatus(self.run().status) == ErrorStatus.NONE
        assert self.values() == self.expected(value)

    def fill(self, value: float) -> None:
        """Set the input, and make all results NaN."""
        self._write(0, value)
        for number in range(len(self.sums)):
            self._write(number + 1, np.nan)

    def values(self) -> list[float]:
        """Return the result of each step; NaN if it has not run."""
        return [
            float(self._pool.read((number + 1) * TENSOR_BYTES, TENSOR_BYTES).view(np.float32)[-1])
            for number in range(len(self.sums))
        ]

    def expected(self, value: float) -> list[float]:
        results = [value]
        for each in self.sums:
            results.append(results[each.first + 1] + results[each.second + 1])
        return results[1:]

    def close(self) -> None:
        """Close the caller's end and release the stages."""
        self.caller.close()
        self.wiring.unwire()

    def _write(self, index: int, value: float) -> None:
        self._pool.write(index * TENSOR_BYTES, np.full(TENSOR_BYTES // 4, value, np.float32).view(np.uint8))
