"""The explanation of a plan, as plain values. Times are nanoseconds; modelled ones are by the devices' cost models."""

from __future__ import annotations

import glob
from dataclasses import dataclass, field

from nnhal.reports import CLIENT_STEP, CopiedBytes, LedgerEntry, copied_by
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
    costs: dict[str, float] = field(default_factory=dict)
    """Its modelled time on each device that supports it and has a cost model, by the device's name."""
    inputs: tuple[str, ...] = ()
    """The values that it reads, constants left out."""
    outputs: tuple[str, ...] = ()
    """The values that it writes."""
    pin: str = ""
    """What the pin matches that holds it on its device; empty if none does."""
    has_open_dimensions: bool = False
    """True if a dimension of a value that it reads or writes is unknown: modelled times have 1 in its place."""
    number: int | None = None
    """Its number in the model, by which a pin names it. None for operations of subgraphs, and for added ones."""
    added: bool = False
    """True if the framework added it, to bring images from one layout to another."""


@dataclass(frozen=True, slots=True)
class ImageLayoutStory:
    """The layout of images, if some devices want channels last and the model in the file has images with them first."""

    channels_last: bool
    """True if the plan has them last."""
    wanting: tuple[str, ...]
    """The devices that want it."""
    other_ns: float
    """The modelled time of the plan with the other layout; 0 if there is none."""
    other_reason: str
    """Why there is no plan with the other layout; empty if there is one."""


@dataclass(frozen=True, slots=True)
class StepStory:
    """One step, with the cost of its launch, and how its device optimizes it."""

    device: str
    operations: int
    modelled_ns: float
    optimizations: tuple[str, ...]
    working_bytes: int = 0
    """Bytes of its device's working memory that it takes; 0 if the device has none, or does not say."""


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
    """``MemCopy``, ``MemImport``, ``FallbackImport``, ``Kept`` or empty."""
    memory: str
    """The kind of memory that it lies in."""
    bytes: int
    copied_bytes: int
    alignment: int
    """Bytes."""
    sync: bool
    """True if the source has to make the value visible first."""
    reason: str
    """Why it is this strategy."""
    modelled_ns: float
    wire_up_bytes: int = 0
    """Those of the copied bytes that go over a network, to the host of the device that reads it."""
    wire_down_bytes: int = 0
    """Those of the copied bytes that come over a network, from the host of the device that writes it."""

    @property
    def is_between(self) -> bool:
        return CLIENT_STEP not in (self.source_step, self.destination_step)

    @property
    def is_copied(self) -> bool:
        """Return whether a host of a device copies it, though its size may be unknown."""
        return self.copied_bytes > 0 or (not self.bytes and self.layer == "MemCopy")


@dataclass(frozen=True, slots=True)
class LinkStory:
    """The network to a device on another host, as measured when the device was registered."""

    round_trip_ns: float
    """Each step on the device takes one."""
    ns_per_byte: float


@dataclass(frozen=True, slots=True)
class DeviceStory:
    """One device that was asked, and how it is realised."""

    name: str
    realisation: str
    modelled_timing: bool
    link: LinkStory | None = None
    """None for a device of this host."""


@dataclass(frozen=True, slots=True)
class Counterfactual:
    """The whole model on one device: the time that it would take, or the reason why the device cannot run it."""

    device: str
    modelled_ns: float
    reason: str
    wire_ns: float = 0.0
    """How much of the time goes by on the network; 0 for a device of this host."""


@dataclass(frozen=True, slots=True)
class ArenaStory:
    """One value between steps: a range of bytes in the arena, during some steps."""

    value: str
    memory: str
    """The kind of memory. There is one arena for each."""
    offset: int
    """Where it begins, in bytes."""
    bytes: int
    first_step: int
    """The step that writes it."""
    last_step: int
    """The last step that reads it."""


@dataclass(frozen=True, slots=True)
class Measured:
    """Medians over some runs. A step that was never run has -1."""

    runs: int
    duration_ns: float
    """The duration of the whole run."""
    step_device_ns: tuple[float, ...]
    """The time of each step, on the device."""
    step_driver_ns: tuple[float, ...]
    """The time of each step, in the driver."""
    step_copy_ns: tuple[float, ...]
    """The part of the driver's time of each step that was copying."""
    copied_bytes: int
    """In the last run."""
    ledger: tuple[LedgerEntry, ...]
    """The ledger of the last run."""

    @property
    def copied(self) -> CopiedBytes:
        """Return what devices copied in the last run, by place."""
        return copied_by(self.ledger)


@dataclass(frozen=True, slots=True)
class Explanation:
    """Reason for the place of each operation in a plan, and the cost of the plan."""

    operations: tuple[OperationStory, ...]
    steps: tuple[StepStory, ...]
    edges: tuple[EdgeStory, ...]
    devices: tuple[DeviceStory, ...]
    modelled_ns: float
    """The modelled time of one run."""
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
    arena_values: tuple[ArenaStory, ...] = ()
    """The values between steps, in the order of their addresses."""
    wire_ns: float = 0.0
    """How much of the modelled time goes by on networks: round trips, and the bytes of values."""
    image_layout: ImageLayoutStory | None = None
    """None if no device wants another layout than the model's."""

    @property
    def transpositions(self) -> tuple[OperationStory, ...]:
        """The operations that the framework added for the layout of images, with what they cost."""
        return tuple(story for story in self.operations if story.added)

    def pin_of(self, index: int) -> str:
        """Return what a pin has to match for this operation alone, by its index in ``operations``.

        It is one of the operation's nodes, if no other operation stands for that; else its number. It is empty for
        operations that have neither: those of subgraphs, and those that the framework added.
        """
        others = {node for number, other in enumerate(self.operations) if number != index for node in other.nodes}
        own = next((node for node in self.operations[index].nodes if node and node not in others), "")
        number = self.operations[index].number
        return f"name:{glob.escape(own)}" if own else "" if number is None else f"index:{number}"

    @property
    def peak_bytes(self) -> int:
        """Memory that one run at a time takes."""
        return self.fallback_bytes + self.constant_bytes + self.client_bytes

    @property
    def copied_bytes(self) -> int:
        return sum(edge.copied_bytes for edge in self.edges)

    @property
    def copied(self) -> CopiedBytes:
        """Bytes that the plan copies in one run, by place. Values of unknown size count as none."""
        return copied_by(self.edges)

    @property
    def request_bytes(self) -> int | None:
        """Bytes of the model's inputs and outputs, which a request without shared memory adds to the copies.

        None if unknown.
        """
        sizes = {
            edge.value: edge.bytes for edge in self.edges if CLIENT_STEP in (edge.source_step, edge.destination_step)
        }
        return sum(sizes.values()) if all(sizes.values()) else None

    @property
    def wire_up_bytes(self) -> int:
        """Bytes that go over networks to devices on other hosts in one run.

        Constants are sent when the model is prepared, and are not among them.
        """
        return sum(edge.wire_up_bytes for edge in self.edges)

    @property
    def wire_down_bytes(self) -> int:
        """Bytes that come over networks from devices on other hosts in one run."""
        return sum(edge.wire_down_bytes for edge in self.edges)


def explanation_from_wire(message: wire.ModelExplanation) -> Explanation:
    return Explanation(
        tuple(
            OperationStory(
                tuple(o.nodes),
                o.operation,
                o.device,
                o.step,
                o.modelled_ns,
                {refusal.device: refusal.reason for refusal in o.refusals},
                {cost.device: cost.modelled_ns for cost in o.costs},
                tuple(o.inputs),
                tuple(o.outputs),
                o.pin,
                o.has_open_dimensions,
                o.number if o.HasField("number") else None,
                o.added,
            )
            for o in message.operations
        ),
        tuple(
            StepStory(s.device, s.operations, s.modelled_ns, tuple(s.optimizations), s.working_bytes)
            for s in message.steps
        ),
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
                e.wire_up_bytes,
                e.wire_down_bytes,
            )
            for e in message.edges
        ),
        tuple(
            DeviceStory(
                d.name,
                d.realisation,
                d.modelled_timing,
                LinkStory(d.link.round_trip_ns, d.link.ns_per_byte) if d.HasField("link") else None,
            )
            for d in message.devices
        ),
        message.modelled_ns,
        tuple(Counterfactual(c.device, c.modelled_ns, c.reason, c.wire_ns) for c in message.counterfactuals),
        message.fallback_bytes,
        message.fallback_bytes_unaligned,
        message.constant_bytes,
        message.client_bytes,
        arena_values=tuple(
            ArenaStory(v.value, v.memory, v.offset, v.bytes, v.first_step, v.last_step) for v in message.arena_values
        ),
        wire_ns=message.wire_ns,
        image_layout=_image_layout(message.image_layout) if message.HasField("image_layout") else None,
    )


def _image_layout(message: wire.ImageLayoutExplanation) -> ImageLayoutStory:
    return ImageLayoutStory(message.channels_last, tuple(message.wanting), message.other_ns, message.other_reason)
