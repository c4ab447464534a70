"""An explanation as plain values; times are nanoseconds, modelled ones by the devices' own cost models."""

from __future__ import annotations

from dataclasses import dataclass, field

from nnhal.reports import LedgerEntry
from nnhal.v1 import framework_pb2 as wire


@dataclass(frozen=True, slots=True)
class OperationStory:
    """One operation: the model's own nodes, where it runs, and what the other devices said, by name."""

    nodes: tuple[str, ...]
    operation: str
    device: str
    step: int
    modelled_ns: float
    refusals: dict[str, str]


@dataclass(frozen=True, slots=True)
class StepStory:
    """One step, launch included, and what its device makes of it."""

    device: str
    operations: int
    modelled_ns: float
    optimizations: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class EdgeStory:
    """One use of a value. A step of -1 is the client."""

    value: str
    source_step: int
    source: str
    destination_step: int
    destination: str
    strategy: str
    layer: str
    memory: str
    bytes: int
    copied_bytes: int
    alignment: int
    sync: bool
    reason: str
    modelled_ns: float


@dataclass(frozen=True, slots=True)
class DeviceStory:
    """One device that was asked."""

    name: str
    realisation: str
    modelled_timing: bool


@dataclass(frozen=True, slots=True)
class Counterfactual:
    """The whole model on one device: what it would take, or why that cannot be."""

    device: str
    modelled_ns: float
    reason: str


@dataclass(frozen=True, slots=True)
class Measured:
    """Medians over some runs: the whole run, and each step's time on the device, in the driver, and of that copying.

    A step that was never run has -1. ``copied_bytes`` and ``ledger`` are the last run's.
    """

    runs: int
    duration_ns: float
    step_device_ns: tuple[float, ...]
    step_driver_ns: tuple[float, ...]
    step_copy_ns: tuple[float, ...]
    copied_bytes: int
    ledger: tuple[LedgerEntry, ...]


@dataclass(frozen=True, slots=True)
class Explanation:
    """A plan's story. ``measured`` is None unless it was run.

    ``fallback_bytes`` is the memory for values between steps, ``fallback_bytes_unaligned`` what it would be without
    alignment.
    """

    operations: tuple[OperationStory, ...]
    steps: tuple[StepStory, ...]
    edges: tuple[EdgeStory, ...]
    devices: tuple[DeviceStory, ...]
    modelled_ns: float
    counterfactuals: tuple[Counterfactual, ...]
    fallback_bytes: int
    fallback_bytes_unaligned: int
    constant_bytes: int
    client_bytes: int
    measured: Measured | None = field(default=None)

    @property
    def peak_bytes(self) -> int:
        """Memory for one run at a time."""
        return self.fallback_bytes + self.constant_bytes + self.client_bytes

    @property
    def copied_bytes(self) -> int:
        """What one run copies, by plan."""
        return sum(edge.copied_bytes for edge in self.edges)


def explanation_from_wire(message: wire.ModelExplanation) -> Explanation:
    """Decode an explanation."""
    return Explanation(
        tuple(
            OperationStory(
                tuple(o.nodes), o.operation, o.device, o.step, o.modelled_ns, {r.device: r.reason for r in o.refusals}
            )
            for o in message.operations
        ),
        tuple(StepStory(s.device, s.operations, s.modelled_ns, tuple(s.optimizations)) for s in message.steps),
        tuple(
            EdgeStory(
                e.value,
                e.source_step,
                e.source,
                e.destination_step,
                e.destination,
                e.strategy,
                e.layer,
                e.memory,
                e.bytes,
                e.copied_bytes,
                e.alignment,
                e.sync,
                e.reason,
                e.modelled_ns,
            )
            for e in message.edges
        ),
        tuple(DeviceStory(d.name, d.realisation, d.modelled_timing) for d in message.devices),
        message.modelled_ns,
        tuple(Counterfactual(c.device, c.modelled_ns, c.reason) for c in message.counterfactuals),
        message.fallback_bytes,
        message.fallback_bytes_unaligned,
        message.constant_bytes,
        message.client_bytes,
    )
