"""Runs a binary: real arithmetic, modelled time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from nnhal.arrays import Array
from nnhal_mlip.program.binary import read_binary
from nnhal_mlip.simulator.counters import RunCounters, run_counters
from nnhal_mlip.simulator.latency import LatencyMeter
from nnhal_mlip.simulator.machine import TileMachine, nothing
from nnhal_mlip.simulator.ports import input_bytes, output_arrays, real_outputs
from nnhal_mlip.simulator.provenance import check_provenance
from nnhal_mlip.timing.profile import TimingProfile
from nnhal_mlip.timing.queues import ProgramTimeline, timeline


@dataclass(frozen=True, slots=True)
class SimulatedRun:
    """What a run computed, and what it took."""

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
