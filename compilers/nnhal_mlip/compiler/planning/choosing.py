"""The first choices of a plan: for each layer the cheapest division, given those of its neighbours."""

from __future__ import annotations

from dataclasses import replace

from nnhal_mlip.compiler.planning.buffers import BROADCAST_SHARE
from nnhal_mlip.compiler.planning.choices import LayerChoice, PlanChoices, most_stripes, shares
from nnhal_mlip.compiler.planning.costs import (
    compute_cycles,
    copies_cycles,
    excess_cycles,
    held_bytes,
    joined,
    weights_cycles,
)
from nnhal_mlip.compiler.planning.setting import PlanSetting, TileBoxes
from nnhal_mlip.program.program import LayerSplit
from nnhal_mlip.program.sizes import ceil_divide

SWEEPS = 2
"""How often each layer is chosen anew, since its neighbours' choices have changed."""
_HIDDEN = 4
"""Of the tiles' cycles and those of the DMA engine, the fewer are hidden behind the others but for one in so many."""


def choose(setting: PlanSetting, weights_share: int, thrift: int) -> PlanChoices:
    """Return the first choices of a plan; they need not fit.

    Args:
        setting: What the plan is made for.
        weights_share: One in so many bytes of a tile's memory is what the weights of one stage may take.
        thrift: What the whole memory of a tile costs, in cycles: the more, the less do layers take.
    """
    options = [_options(setting, number, weights_share) for number in range(len(setting.layers))]
    sweep = _Sweep(setting, thrift, [found[0] for found in options])
    for onward in (False, *[True] * (SWEEPS - 1)):
        before = list(sweep.chosen)
        for number, found in enumerate(options):
            costs = [sweep.cost(number, choice, onward) for choice in found]
            sweep.chosen[number] = found[costs.index(min(costs))]
        if onward and sweep.chosen == before:
            break
    return PlanChoices(tuple(sweep.chosen))


def _options(setting: PlanSetting, number: int, weights_share: int) -> list[LayerChoice]:
    """Return the divisions of a layer that are not slower than one over fewer tiles."""
    layer = setting.layers[number]
    found: list[LayerChoice] = []
    for split in LayerSplit:
        best = None
        for tiles in range(1, setting.tiles + 1):
            choice = LayerChoice(split, tiles)
            if len(shares(layer, split, tiles)) < tiles:
                continue
            cycles = _own_cycles(setting, number, choice)
            if best is None or cycles < best:
                best = cycles
                found.append(_with_weights(setting, number, choice, weights_share))
    return found


def _with_weights(setting: PlanSetting, number: int, choice: LayerChoice, weights_share: int) -> LayerChoice:
    layer = setting.layers[number]
    if layer.weights is None or setting.pinned:
        return choice
    share = shares(layer, choice.split, choice.tiles)[0]
    limit = setting.capacity // weights_share
    everything = setting.constants_bytes(layer, layer.extents[3])
    if everything * BROADCAST_SHARE * 4 <= setting.capacity:
        return replace(choice, whole_weights=True)
    stripes = ceil_divide(setting.constants_bytes(layer, share.shape[3]), max(limit, 1))
    return replace(choice, channel_stripes=min(stripes, most_stripes(layer, choice)[1]))


def _own_cycles(setting: PlanSetting, number: int, choice: LayerChoice) -> int:
    key = (number, choice.split, choice.tiles)
    if key not in setting.costs:
        setting.costs[key] = compute_cycles(setting, setting.layers[number], choice)
    return setting.costs[key]


class _Sweep:
    """The choices so far, and what another one would cost."""

    def __init__(self, setting: PlanSetting, thrift: int, chosen: list[LayerChoice]) -> None:
        self.chosen = chosen
        self._setting = setting
        self._thrift = thrift

    def cost(self, number: int, choice: LayerChoice, onward: bool) -> int:
        """Return about how many cycles a choice costs; with what its readers then receive if ``onward``."""
        setting, profile = self._setting, self._setting.profile
        layer = setting.layers[number]
        cycles = _own_cycles(setting, number, choice)
        cycles += (choice.channel_stripes - 1) * (profile.issue_cycles + profile.barrier_cycles)
        access = setting.access(number, choice)
        held: list[TileBoxes] = [access.written]
        for operand, read in zip(layer.inputs, access.read, strict=True):
            boxes: TileBoxes = read
            for writer in setting.uses[setting.root(operand.value)].writers:
                cycles += self._copies(writer, self.chosen[writer], number, choice)
                boxes = joined(boxes, setting.access(writer, self.chosen[writer]).written)
            held.append(boxes)
        if onward:
            readers = setting.uses[setting.root(layer.output.value)].readers
            cycles += sum(self._copies(number, choice, reader, self.chosen[reader]) for reader in readers)
        size = held_bytes(setting, layer, choice, held)
        loading = weights_cycles(setting, layer, choice)
        cycles = max(cycles, loading) + min(cycles, loading) // _HIDDEN
        return cycles + excess_cycles(setting, size, choice.tiles) + size * self._thrift // setting.capacity

    def _copies(self, writer: int, written: LayerChoice, reader: int, read: LayerChoice) -> int:
        """Return the cycles in which the tiles of a layer receive what another has written."""
        setting = self._setting
        key = (writer, written.split, written.tiles, reader, read.split, read.tiles)
        if key not in setting.costs:
            root = setting.root(setting.layers[writer].output.value)
            given = setting.access(writer, written).written
            operands = setting.layers[reader].inputs
            setting.costs[key] = sum(
                copies_cycles(setting, given, taken)
                for operand, taken in zip(operands, setting.access(reader, read).read, strict=True)
                if setting.root(operand.value) == root
            )
        return setting.costs[key]
