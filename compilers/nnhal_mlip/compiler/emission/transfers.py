"""The transfers of a plan, in the order in which the DMA engine does them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

from nnhal_mlip.compiler.emission.ddr import ConstantsBlock, DdrMap, DdrPlace, channel_ranges
from nnhal_mlip.compiler.geometry.box_bytes import PlacedBox, moves
from nnhal_mlip.compiler.geometry.boxes import TensorBox, common
from nnhal_mlip.compiler.planning.buffers import OcmBuffer
from nnhal_mlip.compiler.planning.plans import TilePlan
from nnhal_mlip.program.program import DdrRange, DdrTransfer, Strided


class TransferRank(IntEnum):
    """Rank of a transfer among those that wait for the same stage."""

    LOAD = 0
    """A load of inputs and constants: the next stage waits for it."""
    STORE = 1
    LOAD_STORED = 2
    """A load of what a transfer before has stored."""


@dataclass(frozen=True, slots=True)
class OrderedTransfer:
    """A transfer, and what its order follows from."""

    transfer: DdrTransfer
    rank: TransferRank
    stage: int
    """The stage that waits for a load, or whose result is stored."""
    buffer: OcmBuffer


def ordered_transfers(plan: TilePlan, ddr: DdrMap) -> list[OrderedTransfer]:
    found = [*_value_loads(plan, ddr), *_weight_loads(plan, ddr), *_stores(plan, ddr)]
    return sorted(found, key=lambda one: (not one.transfer.at_start, one.transfer.after_stage, one.rank, one.stage))


def _value_loads(plan: TilePlan, ddr: DdrMap) -> Iterator[OrderedTransfer]:
    buffers, uses = plan.buffers, plan.setting.uses
    wanted = [
        (buffers.first[uses[root].readers[0]], buffer)
        for root, buffer in buffers.values.items()
        if not uses[root].writers
    ]
    seen: set[int] = set()
    for (stage, _), buffer in buffers.staged.items():
        if id(buffer) not in seen:
            seen.add(id(buffer))
            wanted.append((stage, buffer))
    for stage, buffer in wanted:
        after, rank = buffer.begin, TransferRank.LOAD
        if writers := uses[buffer.root].writers:
            # Later writers write other parts of a concatenation.
            done = max(buffers.last[number] for number in writers if buffers.last[number] < stage)
            after, rank = max(after, done + 1), TransferRank.LOAD_STORED
        masks: dict[TensorBox, int] = {}
        for tile, box in buffer.boxes.items():
            masks[box] = masks.get(box, 0) | 1 << tile
        for box, mask in masks.items():
            target = PlacedBox(plan.address(buffer), box, plan.setting.item)
            source = ddr.sources[buffer.root]
            for ddr_bytes, ocm_bytes in moves(box, source.placed, target):
                yield _load(plan, buffer, stage, after, rank, mask, source.range, ddr_bytes, ocm_bytes)


def _weight_loads(plan: TilePlan, ddr: DdrMap) -> Iterator[OrderedTransfer]:
    setting = plan.setting
    for (layer, channel), buffer in plan.buffers.weights.items():
        first, last = plan.buffers.first[layer], plan.buffers.last[layer]
        stages = plan.buffers.stages
        stage = next(stage for stage in range(first, last + 1) if stages[stage].stripe.channel == channel)
        for (start, stop), mask in channel_ranges(buffer).items():
            size = setting.constants_bytes(setting.layers[layer], stop - start)
            offset, address = ddr.blocks[ConstantsBlock(layer, start, stop)], plan.address(buffer)
            pieces = Strided(offset, 1, size, size), Strided(address, 1, size, size)
            yield _load(plan, buffer, stage, buffer.begin, TransferRank.LOAD, mask, DdrRange.WEIGHTS, *pieces)


def _load(
    plan: TilePlan,
    buffer: OcmBuffer,
    stage: int,
    after: int,
    rank: TransferRank,
    mask: int,
    ddr: DdrRange,
    ddr_bytes: Strided,
    ocm_bytes: Strided,
) -> OrderedTransfer:
    layer = plan.buffers.stages[stage].layer
    kernel = plan.setting.layers[layer].kernel
    after = 0 if buffer.pinned else after
    transfer = DdrTransfer(kernel, after, False, buffer.pinned, mask, ddr, ddr_bytes, ocm_bytes)
    return OrderedTransfer(transfer, rank, stage, buffer)


def _stores(plan: TilePlan, ddr: DdrMap) -> Iterator[OrderedTransfer]:
    setting, buffers = plan.setting, plan.buffers
    for number, stage in enumerate(buffers.stages):
        layer = setting.layers[stage.layer]
        root = setting.root(layer.output.value)
        buffer = buffers.values.get(root) or buffers.written[number]
        for place in ddr.targets.get(root, ()):
            for tile, box in stage.stripe.boxes.items():
                yield from _store(plan, number, buffer, place, tile, setting.written_box(layer, box))


def _store(
    plan: TilePlan, stage: int, buffer: OcmBuffer, place: DdrPlace, tile: int, box: TensorBox
) -> Iterator[OrderedTransfer]:
    part = common(box, place.placed.box)
    if part is None:
        return
    kernel = plan.setting.layers[plan.buffers.stages[stage].layer].kernel
    for ocm_bytes, ddr_bytes in moves(part, plan.placed(buffer, tile), place.placed):
        transfer = DdrTransfer(kernel, stage + 1, True, False, 1 << tile, place.range, ddr_bytes, ocm_bytes)
        yield OrderedTransfer(transfer, TransferRank.STORE, stage, buffer)
