"""Places of values in DDR: inputs, outputs, constants, and scratch for what does not stay in the tiles' memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from nnhal_mlip.compiler.geometry.box_bytes import PlacedBox
from nnhal_mlip.compiler.geometry.boxes import whole
from nnhal_mlip.compiler.planning.allocation import aligned
from nnhal_mlip.compiler.planning.buffers import OcmBuffer
from nnhal_mlip.compiler.planning.plans import TilePlan
from nnhal_mlip.program.program import DdrRange, ProgramPort


class DdrPlace(NamedTuple):
    """A root, or a part of it, in DDR."""

    range: DdrRange
    placed: PlacedBox


class ConstantsBlock(NamedTuple):
    """Some bytes of the binary's weights: constants of a convolution for a range of its channels."""

    layer: int
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class DdrMap:
    """Map of everything in DDR."""

    sources: Mapping[str, DdrPlace]
    """The places of the roots that are loaded from DDR."""
    targets: Mapping[str, tuple[DdrPlace, ...]]
    """The places of the roots that are stored to DDR: outputs and scratch."""
    inputs: tuple[ProgramPort, ...]
    outputs: tuple[ProgramPort, ...]
    blocks: Mapping[ConstantsBlock, int]
    """Offsets of constants of convolutions."""
    operands: Mapping[str, int]
    """Offsets of constant operands, by root."""
    weights_bytes: int
    scratch_bytes: int


def map_ddr(plan: TilePlan, scales: Mapping[str, float]) -> DdrMap:
    setting = plan.setting
    network, aliases = setting.aliased.network, setting.aliased.aliases
    inputs, outputs = _ports(plan, network.inputs, scales), _ports(plan, network.outputs, scales)
    sources = {
        port.name: DdrPlace(DdrRange.INPUTS, PlacedBox(port.offset, whole(setting.extents(port.name)), setting.item))
        for port in inputs
    }
    targets: dict[str, list[DdrPlace]] = {}
    for port in outputs:
        alias = aliases[port.name]
        extents = setting.extents(alias.root if alias.view else port.name)
        place = DdrPlace(DdrRange.OUTPUTS, PlacedBox(port.offset, whole(extents).moved(alias.offset), setting.item))
        targets.setdefault(alias.root, []).append(place)
    scratch = 0
    for root, use in setting.uses.items():
        if root in plan.choices.in_ddr and use.writers and use.readers:
            everything = whole(setting.extents(root))
            sources[root] = DdrPlace(DdrRange.SCRATCH, PlacedBox(scratch, everything, setting.item))
            targets.setdefault(root, []).append(sources[root])
            scratch += aligned(everything.elements * setting.item)
    blocks, operands, size = _constants(plan)
    for root, offset in operands.items():
        sources[root] = DdrPlace(DdrRange.WEIGHTS, PlacedBox(offset, whole(setting.extents(root)), setting.item))
    kept = {root: tuple(places) for root, places in targets.items()}
    return DdrMap(sources, kept, inputs, outputs, blocks, operands, size, scratch)


def channel_ranges(buffer: OcmBuffer) -> dict[tuple[int, int], int]:
    """Return the ranges of output channels whose constants a buffer of weights holds, each with a mask of tiles."""
    masks: dict[tuple[int, int], int] = {}
    for tile, box in buffer.boxes.items():
        key = box.starts[3], box.stops[3]
        masks[key] = masks.get(key, 0) | 1 << tile
    return masks


def _constants(plan: TilePlan) -> tuple[dict[ConstantsBlock, int], dict[str, int], int]:
    setting = plan.setting
    blocks: dict[ConstantsBlock, int] = {}
    operands: dict[str, int] = {}
    offset = 0
    for buffer in plan.buffers.weights.values():
        for start, stop in channel_ranges(buffer):
            block = ConstantsBlock(buffer.layer, start, stop)
            if block not in blocks:
                blocks[block] = offset
                offset += aligned(setting.constants_bytes(setting.layers[buffer.layer], stop - start))
    for root, use in setting.uses.items():
        if setting.is_constant(root) and use.readers:
            operands[root] = offset
            offset += aligned(setting.aliased.network.values[root].elements * setting.item)
    return blocks, operands, offset


def _ports(plan: TilePlan, names: tuple[str, ...], scales: Mapping[str, float]) -> tuple[ProgramPort, ...]:
    setting = plan.setting
    ports, offset = [], 0
    for name in names:
        value = setting.aliased.network.values[name]
        size = value.elements * setting.item
        ports.append(ProgramPort(name, value.shape, value.layout, setting.type, scales[name], offset, size))
        offset += aligned(size)
    return tuple(ports)
