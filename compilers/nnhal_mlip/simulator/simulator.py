"""Runs a binary: real arithmetic, modelled time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import NamedTuple

import numpy as np

from nnhal.arrays import Array
from nnhal_mlip.program.binary import read_binary
from nnhal_mlip.simulator.counters import RunCounters, run_counters
from nnhal_mlip.simulator.machine import TileMachine, nothing
from nnhal_mlip.simulator.ports import input_bytes, output_arrays, real_outputs
from nnhal_mlip.simulator.provenance import check_provenance
from nnhal_mlip.timing.profile import TimingProfile
from nnhal_mlip.timing.queues import ProgramTimeline, timeline


@dataclass(frozen=True, slots=True)
class SimulatedRun:
    """Outputs and times of a simulated run."""

    outputs: tuple[Array, ...]
    """As the driver returns them: float32 for float16 and int8."""
    raw: tuple[Array, ...]
    """In the types of the accelerator."""
    counters: RunCounters
    timeline: ProgramTimeline
    """Modelled."""
    hardware_ns: float
    """Modelled."""
    firmware_ns: float
    """Modelled, beside the hardware."""


class Simulator:
    """A binary that is loaded: checked, its pinned weights in OCM. Several threads may run it."""

    def __init__(self, binary: bytes, profile: TimingProfile, checked: bool = False) -> None:
        """``checked`` looks at who wrote every byte that the program reads, once and for all runs.

        Raises:
            BinaryError: the binary is damaged, or no binary.
            ProgramError: its program cannot run; StaleBytesError if it reads bytes that do not hold what it expects.
        """
        self.binary = read_binary(binary)
        self.program, self.profile = self.binary.program, profile
        self._machine = TileMachine(self.program, np.frombuffer(self.binary.weights, np.uint8))
        if checked:
            check_provenance(self.program)
        self.timeline = timeline(self.program, profile)
        self.counters = run_counters(self.program)
        self.latency = LatencyMeter()

    def run(self, inputs: Sequence[Array], check: Callable[[], None] = nothing) -> SimulatedRun:
        """Run the program on its inputs, which are float32 or of the program's own types, in its shapes.

        ``check`` is called between stages, and may raise to end the run.

        Raises:
            SimulatorInputError: an input is not what the program takes.
            SimulatorError: the program's constants make no sense.
        """
        raw = output_arrays(self.binary, self._machine.run(input_bytes(self.binary, inputs), check))
        hardware_ns, firmware_ns = self.profile.nanoseconds(self.timeline.total), float(self.profile.firmware_ns)
        self.latency.add(hardware_ns, firmware_ns)
        return SimulatedRun(real_outputs(self.binary, raw), raw, self.counters, self.timeline, hardware_ns, firmware_ns)


class LatencySpread(NamedTuple):
    """Modelled nanoseconds over all runs; 0 if there was none."""

    average: float
    minimum: float
    maximum: float


class ModelLatency(NamedTuple):
    """The figures of a model."""

    runs: int
    hardware: LatencySpread
    """From the start to the end of the program."""
    firmware: LatencySpread
    """From the start to the end of a request, without the hardware's share."""


class LatencyMeter:
    """Adds up the runs of a model. Several threads may use it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._count = 0
        self._sums = [0.0, 0.0]
        self._lowest = [0.0, 0.0]
        self._highest = [0.0, 0.0]

    def add(self, hardware_ns: float, firmware_ns: float) -> None:
        with self._lock:
            for index, value in enumerate((hardware_ns, firmware_ns)):
                self._sums[index] += value
                self._lowest[index] = min(self._lowest[index], value) if self._count else value
                self._highest[index] = max(self._highest[index], value)
            self._count += 1

    def figures(self) -> ModelLatency:
        with self._lock:
            hardware, firmware = (
                LatencySpread(total / max(self._count, 1), lowest, highest)
                for total, lowest, highest in zip(self._sums, self._lowest, self._highest, strict=True)
            )
            return ModelLatency(self._count, hardware, firmware)
