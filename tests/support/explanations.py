"""Explanations of plans, made of their operations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field

from nnhal.v1 import framework_pb2 as wire
from nnhal_client.explanation import DeviceStory, EdgeStory, Explanation, OperationStory, StepStory


def explanation_to_wire(explanation: Explanation) -> wire.ModelExplanation:
    """Return the message of which ``explanation_from_wire`` makes the explanation."""
    fields = asdict(explanation)
    del fields["measured"]
    for story in fields["operations"]:
        story["refusals"] = [{"device": name, "reason": reason} for name, reason in story["refusals"].items()]
        story["costs"] = [{"device": name, "modelled_ns": cost} for name, cost in story["costs"].items()]
    return wire.ModelExplanation(**fields)


BYTES = 4096
"""The size of every value."""
COST_NS = 1000.0
"""The modelled time of every operation on its device. On each other device it is twice that."""


@dataclass(frozen=True, slots=True)
class Placed:
    """An operation on a device."""

    name: str
    kind: str
    device: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    refusals: dict[str, str] = field(default_factory=dict)
    pin: str = ""


def scoped(count: int, device: str = "npu") -> list[Placed]:
    """Return a chain of operations in blocks of 40 with two parts each, and a value that skips ten."""
    placed, skipped = [], "v0"
    for number in range(count):
        name = f"encoder/block{number // 40}/{'attention' if number % 40 < 20 else 'mlp'}/node{number}"
        is_sum = number % 10 == 9
        inputs = (f"v{number}", skipped) if is_sum else (f"v{number}",)
        output = f"v{number + 1}"
        skipped = output if is_sum else skipped
        placed.append(Placed(name, "ADD" if is_sum else "RELU", device, inputs, (output,)))
    return placed


def explained(
    operations: Sequence[Placed], devices: Sequence[str] = ("npu", "gpu", "cpu"), copied: bool = True
) -> Explanation:
    """Explain a plan whose steps are neighbours on one device.

    Values that no operation writes are the client's, and so are those that none reads. With ``copied`` a value that
    goes to the last device is copied.
    """
    step_of: list[int] = []
    for number, placed in enumerate(operations):
        same = number > 0 and operations[number - 1].device == placed.device
        step_of.append(0 if not number else step_of[-1] + (not same))
    device_of = {step: placed.device for step, placed in zip(step_of, operations, strict=True)}
    written = {value: step for step, placed in zip(step_of, operations, strict=True) for value in placed.outputs}
    read: dict[str, dict[int, None]] = {}
    for step, placed in zip(step_of, operations, strict=True):
        for value in placed.inputs:
            read.setdefault(value, {})[step] = None
    ways = [(value, written.get(value, -1), step) for value, steps in read.items() for step in steps]
    ways += [(value, step, -1) for value, step in written.items() if value not in read]
    edges = tuple(
        _edge(*way, device_of, copied and device_of.get(way[2]) == devices[-1])
        for way in ways
        if way[1] != way[2] or way[1] == -1
    )
    return Explanation(
        operations=tuple(
            OperationStory(
                (placed.name,) if placed.name else (),
                placed.kind,
                placed.device,
                step,
                COST_NS,
                placed.refusals,
                {name: COST_NS * (1 + (name != placed.device)) for name in devices if name not in placed.refusals},
                placed.inputs,
                placed.outputs,
                placed.pin,
                number=number,
            )
            for number, (step, placed) in enumerate(zip(step_of, operations, strict=True))
        ),
        steps=tuple(
            StepStory(device, step_of.count(step), COST_NS * step_of.count(step), ())
            for step, device in device_of.items()
        ),
        edges=edges,
        devices=tuple(DeviceStory(name, f"an emulated {name}", True) for name in devices),
        modelled_ns=COST_NS * len(operations) + sum(edge.modelled_ns for edge in edges),
        counterfactuals=(),
        fallback_bytes=BYTES * len(edges),
        fallback_bytes_unaligned=BYTES * len(edges),
        constant_bytes=0,
        client_bytes=BYTES * 2,
    )


def _edge(value: str, source: int, target: int, device_of: dict[int, str], copied: bool) -> EdgeStory:
    return EdgeStory(
        value,
        source,
        device_of.get(source, ""),
        target,
        device_of.get(target, ""),
        "CopyToTarget" if copied else "DirectCompatibility",
        "MemCopy" if copied else "",
        "ashmem",
        BYTES,
        BYTES if copied else 0,
        64,
        False,
        "the target takes no ashmem" if copied else "both take ashmem",
        500.0 if copied else 0.0,
    )


def chain(count: int, device: str = "npu") -> list[Placed]:
    return [
        Placed(f"layer_{number}", "CONV_2D", device, (f"v{number}",), (f"v{number + 1}",)) for number in range(count)
    ]


def residual(blocks: int, devices: Sequence[str] = ("npu", "gpu", "cpu")) -> list[Placed]:
    """Blocks of four operations with an addition of what came into them. Every seventh block begins another device."""
    found: list[Placed] = []
    value = "image"
    for block in range(blocks):
        device = devices[block // 7 % len(devices)]
        name, start = f"features/stage_{block // 7}/block_{block}", value
        for number, kind in enumerate(("CONV_2D", "RELU", "DEPTHWISE_CONV_2D", "CONV_2D")):
            following = f"{name}/value_{number}"
            found.append(Placed(f"{name}/{kind.lower()}_{number}", kind, device, (value,), (following,)))
            value = following
        found.append(Placed(f"{name}/add", "ADD", device, (value, start), (f"{name}/sum",)))
        value = f"{name}/sum"
    return found


def inception(blocks: int, device: str = "npu") -> list[Placed]:
    """Blocks of four branches of one to three operations, which a concatenation joins."""
    found: list[Placed] = []
    value = "image"
    for block in range(blocks):
        ends = []
        for branch, length in enumerate((1, 2, 3, 2)):
            current = value
            for number in range(length):
                name = f"mixed_{block}/branch_{branch}/conv_{number}"
                found.append(Placed(name, "CONV_2D", device, (current,), (f"{name}:0",)))
                current = f"{name}:0"
            ends.append(current)
        value = f"mixed_{block}/concat:0"
        found.append(Placed(f"mixed_{block}/concat", "CONCATENATION", device, tuple(ends), (value,)))
    return found


def branches(count: int, device: str = "npu") -> list[Placed]:
    """So many operations between one that they all read and one that reads them all."""
    outputs = tuple(f"b{number}" for number in range(count))
    middle = [Placed(f"branch_{number}", "RELU", device, ("split",), (outputs[number],)) for number in range(count)]
    first = Placed("first", "CONV_2D", device, ("x",), ("split",))
    return [first, *middle, Placed("last", "CONCATENATION", device, outputs, ("y",))]
