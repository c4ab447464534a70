"""The buffers that decisions ask for: how many bytes of each tile, and from which stage to which.

Time is counted in stages. What is loaded for a stage lies in memory from the stage during which it arrives; what is
stored after a stage lies there until the next one is done. Two buffers whose times do not meet may share addresses.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from nnhal_devices.mlip.compiler.geometry.boxes import TensorBox, consecutive, hull, whole
from nnhal_devices.mlip.compiler.planning.choices import PlanChoices
from nnhal_devices.mlip.compiler.planning.setting import PlanSetting, TileBoxes
from nnhal_devices.mlip.compiler.planning.splits import LayerStripe, stripes

BROADCAST_SHARE = 8
"""What comes from DDR goes to all tiles as a whole, in one transfer, if it takes at most one in so many bytes."""


class BufferUse(StrEnum):
    """What a buffer holds."""

    VALUE = "value"
    """A root from its first writer to its last reader."""
    INPUT = "input"
    """What one stage, or several, read of a root in DDR."""
    OUTPUT = "output"
    """What one stage writes of a root in DDR."""
    WEIGHTS = "weights"


@dataclass(frozen=True, slots=True)
class OcmBuffer:
    """Bytes at the same address of each tile."""

    use: BufferUse
    root: str
    """Empty for weights."""
    layer: int
    """The first that uses it."""
    boxes: TileBoxes
    """What of the root; for weights, of the output, in the layer's order of axes."""
    bytes: int
    """Of the tile that takes most."""
    begin: int
    """A stage."""
    end: int
    """The last stage."""
    pinned: bool = False
    """Whether it is filled at start, and kept."""


@dataclass(frozen=True, slots=True)
class PlannedStage:
    """What is computed between two barriers."""

    layer: int
    stripe: LayerStripe


@dataclass(slots=True)
class BufferPlan:
    """The stages and buffers of decisions."""

    stages: list[PlannedStage] = field(default_factory=list)
    first: list[int] = field(default_factory=list)
    """The first stage of each layer."""
    last: list[int] = field(default_factory=list)
    """The last stage of each layer."""
    values: dict[str, OcmBuffer] = field(default_factory=dict)
    """By root."""
    staged: dict[tuple[int, str], OcmBuffer] = field(default_factory=dict)
    """By stage and root; stages may share one."""
    written: dict[int, OcmBuffer] = field(default_factory=dict)
    """By stage."""
    weights: dict[tuple[int, int], OcmBuffer] = field(default_factory=dict)
    """By layer and stripe of channels."""

    def buffers(self) -> list[OcmBuffer]:
        """Return all buffers, each once."""
        groups = (self.values, self.staged, self.written, self.weights)
        return list({id(buffer): buffer for group in groups for buffer in group.values()}.values())


def plan_buffers(setting: PlanSetting, choices: PlanChoices) -> BufferPlan:
    """Return the stages and buffers of decisions."""
    plan = BufferPlan()
    for number, (layer, choice) in enumerate(zip(setting.layers, choices.layers, strict=True)):
        plan.first.append(len(plan.stages))
        plan.stages += [PlannedStage(number, stripe) for stripe in stripes(layer, choice)]
        plan.last.append(len(plan.stages) - 1)
    for root, use in setting.uses.items():
        if root not in choices.in_ddr and (use.writers or use.readers):
            plan.values[root] = _value(setting, choices, plan, root)
    for number in range(len(setting.layers)):
        _stage_buffers(setting, choices, plan, number)
        _weights(setting, choices, plan, number)
    return plan


def value_boxes(setting: PlanSetting, choices: PlanChoices, root: str) -> TileBoxes:
    """Return what each tile holds of a root that is kept in the tiles' memory: what it writes, and what it reads."""
    use, layers = setting.uses[root], setting.layers
    boxes: dict[int, TensorBox] = {}
    for number in use.writers:
        _widen(boxes, setting.access(number, choices.layers[number]).written)
    for number in use.readers:
        access = setting.access(number, choices.layers[number])
        for operand, read in zip(layers[number].inputs, access.read, strict=True):
            if setting.root(operand.value) == root:
                _widen(boxes, read)
    extents = setting.extents(root)
    everything = whole(extents)
    if not use.writers and everything.elements * setting.item * BROADCAST_SHARE <= setting.capacity:
        return dict.fromkeys(boxes, everything)
    if root in setting.housed.viewed:
        boxes = {tile: consecutive(box, extents) for tile, box in boxes.items()}
    return boxes


def _value(setting: PlanSetting, choices: PlanChoices, plan: BufferPlan, root: str) -> OcmBuffer:
    use = setting.uses[root]
    boxes = value_boxes(setting, choices, root)
    if use.writers:
        begin = plan.first[use.writers[0]]
    else:
        begin = max(plan.first[use.readers[0]] - choices.ahead(use.readers[0]), 0)
    ends = [plan.last[number] for number in use.readers]
    ends += [plan.last[number] + use.leaves for number in use.writers]
    layer = (use.writers or use.readers)[0]
    pinned = setting.pinned and setting.is_constant(root)
    return OcmBuffer(BufferUse.VALUE, root, layer, boxes, _bytes(setting, boxes), begin, max(ends), pinned)


def _stage_buffers(setting: PlanSetting, choices: PlanChoices, plan: BufferPlan, number: int) -> None:
    layer = setting.layers[number]
    target = setting.root(layer.output.value)
    runs: dict[str, list[tuple[TileBoxes, list[int]]]] = {}
    for stage in range(plan.first[number], plan.last[number] + 1):
        boxes = plan.stages[stage].stripe.boxes
        for root, read in _read(setting, choices, number, boxes).items():
            found = runs.setdefault(root, [])
            if found and found[-1][0] == read:
                found[-1][1].append(stage)
            else:
                found.append((read, [stage]))
        if target in choices.in_ddr:
            out = {tile: setting.written_box(layer, box) for tile, box in boxes.items()}
            size = _bytes(setting, out)
            plan.written[stage] = OcmBuffer(BufferUse.OUTPUT, target, number, out, size, stage, stage + 1)
    for root, found in runs.items():
        for read, at in found:
            begin = max(at[0] - choices.ahead(number), 0)
            buffer = OcmBuffer(BufferUse.INPUT, root, number, read, _bytes(setting, read), begin, at[-1])
            plan.staged.update({(stage, root): buffer for stage in at})


def _read(setting: PlanSetting, choices: PlanChoices, number: int, boxes: TileBoxes) -> dict[str, TileBoxes]:
    layer = setting.layers[number]
    wanted: dict[str, dict[int, TensorBox]] = {}
    for operand in layer.inputs:
        root = setting.root(operand.value)
        if root in choices.in_ddr:
            read = {tile: setting.read_box(layer, operand, box) for tile, box in boxes.items()}
            _widen(wanted.setdefault(root, {}), read)
    return {
        root: {tile: consecutive(box, setting.extents(root)) for tile, box in read.items()}
        if root in setting.housed.viewed
        else read
        for root, read in wanted.items()
    }


def _weights(setting: PlanSetting, choices: PlanChoices, plan: BufferPlan, number: int) -> None:
    layer, choice = setting.layers[number], choices.layers[number]
    if layer.weights is None:
        return
    by_channels: dict[int, list[int]] = {}
    for stage in range(plan.first[number], plan.last[number] + 1):
        by_channels.setdefault(plan.stages[stage].stripe.channel, []).append(stage)
    for channel, at in by_channels.items():
        boxes: dict[int, TensorBox] = {}
        for stage in at:
            _widen(boxes, plan.stages[stage].stripe.boxes)
        if choice.whole_weights:
            boxes = {tile: box.along(3, 0, layer.extents[3]) for tile, box in boxes.items()}
        size = max(setting.constants_bytes(layer, box.shape[3]) for box in boxes.values())
        begin = max(at[0] - choices.ahead(number), 0)
        plan.weights[number, channel] = OcmBuffer(
            BufferUse.WEIGHTS, "", number, boxes, size, begin, at[-1], setting.pinned
        )


def _widen(boxes: dict[int, TensorBox], others: TileBoxes) -> None:
    for tile, box in others.items():
        boxes[tile] = hull(boxes[tile], box) if tile in boxes else box


def _bytes(setting: PlanSetting, boxes: TileBoxes) -> int:
    return max(box.elements for box in boxes.values()) * setting.item
