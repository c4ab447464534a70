"""Cost of a choice for a layer, as far as it does not depend on the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from nnhal_mlip.compiler.geometry.boxes import TensorBox, common, hull
from nnhal_mlip.compiler.layers.tile_layers import TileLayer
from nnhal_mlip.compiler.planning.choices import LayerChoice, shares
from nnhal_mlip.compiler.planning.setting import PlanSetting, TileBoxes
from nnhal_mlip.program.program import LayerSplit, TaskKind
from nnhal_mlip.program.sizes import ceil_divide
from nnhal_mlip.timing.cycles import TileWork, stage_cycles, work_cycles

_SPILL_PASSES = 3
"""What does not fit goes to DDR and comes back, and stripes read some of it twice."""


def compute_cycles(setting: PlanSetting, layer: TileLayer, choice: LayerChoice) -> int:
    """Return the cycles of a layer from its first issue to its last barrier, without copies and transfers."""
    share = shares(layer, choice.split, choice.tiles)[0].shape
    groups = 1
    channels, reduction = share[3], layer.reduction
    if layer.groups > 1:
        groups = share[3] * layer.groups // layer.extents[3]
        channels = share[3] // groups
    positions, read = prod(share[:3]), setting.item * len(layer.inputs)
    if layer.task is TaskKind.MATMUL:
        groups, positions, read = share[0] * share[1], share[2], setting.item
    work = TileWork(layer.task, setting.type, positions, channels, reduction, read, setting.item)
    duration = work_cycles(work, setting.profile).duration
    profile = setting.profile
    return stage_cycles(groups * duration + (groups - 1) * profile.issue_cycles, profile)


def weights_cycles(setting: PlanSetting, layer: TileLayer, choice: LayerChoice) -> int:
    if layer.weights is None or setting.pinned:
        return 0
    count = setting.constants_bytes(layer, layer.extents[3])
    apart = choice.tiles if choice.split is LayerSplit.CHANNELS and not choice.whole_weights else 1
    transfers = apart * choice.channel_stripes
    return ceil_divide(count, setting.profile.ddr_bytes) + transfers * setting.profile.ddr_start_cycles


def copies_cycles(setting: PlanSetting, written: TileBoxes, read: TileBoxes) -> int:
    """Return the cycles in which tiles receive what they read of what others have written."""
    given: dict[int, int] = {}
    most = 0
    for tile, box in read.items():
        taken = 0
        for source, other in written.items():
            if source != tile and (part := common(box, other)) is not None:
                size = part.elements * setting.item
                taken += size
                given[source] = max(given.get(source, 0), size)
        most = max(most, taken)
    if not most:
        return 0
    profile = setting.profile
    return profile.issue_cycles + max(
        ceil_divide(most, profile.write_bytes), ceil_divide(max(given.values()), profile.read_bytes)
    )


def held_bytes(setting: PlanSetting, layer: TileLayer, choice: LayerChoice, operands: Sequence[TileBoxes]) -> int:
    """Return the bytes of a tile that a layer takes.

    Args:
        setting: What the plan is made for.
        layer: The layer.
        choice: How it is divided.
        operands: What each tile holds of the layer's inputs and output.
    """
    held = sum(max(box.elements for box in boxes.values()) for boxes in operands) * setting.item
    share = shares(layer, choice.split, choice.tiles)[0]
    return held + 2 * setting.constants_bytes(layer, share.shape[3]) // choice.channel_stripes


def excess_cycles(setting: PlanSetting, held: int, tiles: int) -> int:
    """Return about how long the DMA engine takes for what does not fit into a tile's memory."""
    return max(held - setting.capacity, 0) * tiles * _SPILL_PASSES // setting.profile.ddr_bytes


def joined(one: TileBoxes, other: TileBoxes) -> Mapping[int, TensorBox]:
    """Return what each tile holds that holds both."""
    boxes = dict(one)
    for tile, box in other.items():
        boxes[tile] = hull(boxes[tile], box) if tile in boxes else box
    return boxes
