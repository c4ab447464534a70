"""The explanation of a plan, as plain values. Times are nanoseconds; modelled ones are by the devices' cost models."""

from __future__ import annotations

from dataclasses import dataclass, field

from nnhal.reports import LedgerEntry
from nnhal.v1 import framework_pb2 as wire


@dataclass(frozen=True, slots=True)
class OperationStory:
    """One operation: where it runs, and why other devices refused it."""

    nodes: tuple[str, ...]
    """The nodes of the model file that it stands for."""
    operation: str
    """Its type."""
    device: str
    step: int
    modelled_ns: float
    refusals: dict[str, str]
    """The reasons of other devices, by name."""


@dataclass(frozen=True, slots=True)
class StepStory:
    """One step, with the cost of its launch, and how its device optimizes it."""

    device: str
    operations: int
    modelled_ns: float
    optimizations: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class EdgeStory:
    """One edge: a value on its way from step to step."""

    value: str
    source_step: int
    """-1 for the client."""
    source: str
    """The device that writes the value; empty for the client."""
    destination_step: int
    """-1 for the client."""
    destination: str
    """The device that reads the value; empty for the client."""
    strategy: str
    """``DirectCompatibility``, ``ExportToTarget`` or ``CopyToTarget``."""
    layer: str
    """``MemCopy``, ``MemImport``, ``FallbackImport`` or empty."""
    memory: str
    """The kind of memory that it lies in."""
    bytes: int
    copied_bytes: int
    alignment: int
    """Bytes."""
    sync: bool
    """Whether the source has to make the value visible first."""
    reason: str
    """Why it is this strategy."""
    modelled_ns: float


@dataclass(frozen=True, slots=True)
class DeviceStory:
    """One device that was asked, and how it is realised."""

    name: str
    realisation: str
    modelled_timing: bool


@dataclass(frozen=True, slots=True)
class Counterfactual:
    """The whole model on one device: the time that it would take, or the reason why the device cannot run it."""

    device: str
    modelled_ns: float
    reason: str


@dataclass(frozen=True, slots=True)
class Measured:
    """Medians over some runs. A step that was never run has -1."""

    runs: int
    duration_ns: float
    """Of the whole run."""
    step_device_ns: tuple[float, ...]
    """Of each step, on the device."""
    step_driver_ns: tuple[float, ...]
    """Of each step, in the driver."""
    step_copy_ns: tuple[float, ...]
    """Of each step, the part of the driver's time that was copying."""
    copied_bytes: int
    """In the last run."""
    ledger: tuple[LedgerEntry, ...]
    """Of the last run."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a plan is as it is, and what it costs."""

    operations: tuple[OperationStory, ...]
    steps: tuple[StepStory, ...]
    edges: tuple[EdgeStory, ...]
    devices: tuple[DeviceStory, ...]
    modelled_ns: float
    """Of one run."""
    counterfactuals: tuple[Counterfactual, ...]
    fallback_bytes: int
    """Memory for values between steps."""
    fallback_bytes_unaligned: int
    """The same if no alignment were needed."""
    constant_bytes: int
    client_bytes: int
    """Memory for inputs and outputs."""
    measured: Measured | None = field(default=None)
    """None unless it was run."""

    @property
    def peak_bytes(self) -> int:
        """Memory that one run at a time takes."""
        return self.fallback_bytes + self.constant_bytes + self.client_bytes

    @property
    def copied_bytes(self) -> int:
        """Bytes that the plan copies in one run."""
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
