"""Networks that are planned and then run on the machine."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from benchmarks.cascade.loading import LoadedNetwork
from nnhal.arrays import Array
from nnhal.resolved import ResolvedModel
from nnhal.types.layout import ELEMENT_TYPES, byte_size
from nnhal_cascade.hardware.memory import System
from nnhal_cascade.machine.errors import MachineError
from nnhal_cascade.machine.machine import Machine
from nnhal_cascade.schedule.schedule import Schedule
from nnhal_cascade.stream.emit import emit
from nnhal_devices.cpu_ref.interpreter import Interpreter
from nnhal_devices.driver import Control

_SEED = 14


@dataclass(frozen=True, slots=True)
class MachineRun:
    """A schedule beside what the machine measured when it ran it in checking mode."""

    network: str
    system: str
    schedule: Schedule
    peak: int = 0
    """Bytes that the machine measured."""
    cycles: int = 0
    """Cycles that the machine measured."""
    seconds: float = 0.0
    """How long the emulation took."""
    same_output: bool = False
    """Whether each output is cpu_ref's, bit for bit."""
    failure: str = ""
    """Why the machine gave up, if it did."""

    @property
    def is_as_planned(self) -> bool:
        """Whether bytes and cycles are those of the schedule."""
        return (self.peak, self.cycles) == (self.schedule.peak, self.schedule.cycles)


class Runner:
    """Runs schedules of one network on the same inputs."""

    def __init__(self, network: LoadedNetwork, system: System) -> None:
        self._network, self._system = network, system
        self._inputs = _random_inputs(network.model)
        self._expected = Interpreter(network.model).run(0, self._inputs, Control())

    def run(self, schedule: Schedule) -> MachineRun:
        """Run a schedule in checking mode."""
        network, names = self._network, (self._network.path.stem, self._system.name)
        started = time.perf_counter()
        try:
            machine = Machine(emit(schedule), schedule.graph, network.model, self._system, checked=True)
            outputs, measured = machine.run(self._inputs)
        except MachineError as error:
            return MachineRun(*names, schedule, failure=str(error))
        seconds = time.perf_counter() - started
        same = all(np.array_equal(one, other) for one, other in zip(outputs, self._expected, strict=True))
        return MachineRun(*names, schedule, measured.peak, measured.cycles, seconds, same)


def _random_inputs(model: ResolvedModel) -> list[Array]:
    """Inputs of random bytes."""
    random, main = np.random.default_rng(_SEED), model.model.main
    found: list[Array] = []
    for operand in (main.operands[index] for index in main.input_indexes):
        content = random.bytes(byte_size(operand.type, operand.dimensions))
        found.append(np.frombuffer(content, ELEMENT_TYPES[operand.type]).reshape(operand.dimensions))
    return found
