"""Networks in TFLite that are planned, and then run on the machine."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from nnhal.arrays import Array
from nnhal.resolved import ResolvedModel
from nnhal.types.layout import ELEMENT_TYPES, byte_size
from nnhal_cascade.graph.cascader_graph import CascaderGraph
from nnhal_cascade.hardware.memory import System
from nnhal_cascade.machine.errors import MachineError
from nnhal_cascade.machine.machine import Machine
from nnhal_cascade.performance.encoding import encoded_graph
from nnhal_cascade.schedule.schedule import Schedule
from nnhal_cascade.stream.emit import emit
from nnhal_devices.cpu_ref.interpreter import Interpreter
from nnhal_devices.driver import Control
from nnhal_frontends import import_file

_SEED = 14
_VARIABLE = "NNHAL_MODELS"


class NoNetworksError(ValueError):
    """The folder of the networks is not known. The message says what to set."""


@dataclass(frozen=True, slots=True)
class LoadedNetwork:
    """A network in the three forms that a measurement needs."""

    path: Path
    model: ResolvedModel
    graph: CascaderGraph


def networks_folder() -> Path:
    """Return the folder that NNHAL_MODELS names. Raises NoNetworksError."""
    folder = os.environ.get(_VARIABLE)
    if not folder:
        raise NoNetworksError(f"{_VARIABLE} is not set: it names the folder of the TFLite networks")
    return Path(folder)


def load(path: Path) -> LoadedNetwork:
    """Read a network. Raises FrontendError, ValueError and OSError."""
    model = import_file(path).resolved()
    return LoadedNetwork(path, model, encoded_graph(model))


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
        """Return whether bytes and cycles are those of the schedule."""
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
    """Return inputs of random bytes."""
    random, main = np.random.default_rng(_SEED), model.model.main
    found: list[Array] = []
    for operand in (main.operands[index] for index in main.input_indexes):
        content = random.bytes(byte_size(operand.type, operand.dimensions))
        found.append(np.frombuffer(content, ELEMENT_TYPES[operand.type]).reshape(operand.dimensions))
    return found
