"""Text about the modelled time of a compiled network."""

from __future__ import annotations

from dataclasses import dataclass

from nnhal_mlip.command.compiling import CompiledNetwork
from nnhal_mlip.simulator.report import PerfReport


@dataclass(frozen=True, slots=True)
class BinaryPerf:
    """A binary's run."""

    symbol: str
    report: PerfReport


@dataclass(frozen=True, slots=True)
class NetworkPerf:
    """A run of all binaries of a network. All times are modelled, by the figures of a profile that are guesses."""

    model: str
    modelled: bool
    """Always."""
    profile: str
    clock_hz: int
    cycles: int
    """The cycles of all binaries, one after the other."""
    hardware_ns: float
    firmware_ns: float
    """The time of their starts, apart from the hardware's."""
    least: int
    """What no schedule of them could be faster than, in cycles."""
    macs: int
    ddr_bytes: int
    host: tuple[str, ...]
    """Operators that the host computes, by the user's names."""
    host_ns: float
    """Their time, by the same profile."""
    binaries: tuple[BinaryPerf, ...]

    @property
    def whole_ns(self) -> float:
        """The time of a run from its inputs to its outputs: hardware, firmware and host, one after the other."""
        return self.hardware_ns + self.firmware_ns + self.host_ns


def network_perf(network: CompiledNetwork) -> NetworkPerf:
    profile = network.request.profile
    reports = [binary.report for binary in network.binaries]
    return NetworkPerf(
        model=network.model.name,
        modelled=True,
        profile=profile.name,
        clock_hz=profile.clock_hz,
        cycles=sum(report.total for report in reports),
        hardware_ns=sum(report.hardware_ns for report in reports),
        firmware_ns=sum(report.firmware_ns for report in reports),
        least=sum(report.least for report in reports),
        macs=sum(report.counters.macs for report in reports),
        ddr_bytes=sum(report.counters.ddr_bytes for report in reports),
        host=tuple(step.name for step in network.host),
        host_ns=sum(step.ns for step in network.host),
        binaries=tuple(BinaryPerf(binary.symbol, binary.report) for binary in network.binaries),
    )
