"""Ways to take less memory in a stage, each with what it gains and about what it costs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from nnhal_mlip.compiler.planning.allocation import aligned
from nnhal_mlip.compiler.planning.buffers import BufferPlan, OcmBuffer, OcmBufferUse
from nnhal_mlip.compiler.planning.choices import PlanChoices, most_stripes
from nnhal_mlip.compiler.planning.setting import PlanSetting
from nnhal_mlip.program.program import TaskKind

_TOUCHED_GAIN = 2
"""A value that the stage itself reads or writes still takes a part of its bytes when it is in DDR."""


class Relief(NamedTuple):
    """A change of a plan."""

    choices: PlanChoices
    subject: object
    """What it changes: a root or a layer. Two changes of one subject are not made at once."""
    gain: int
    """Bytes of each tile in the stage."""
    cost: int
    """Cycles, roughly."""


def reliefs(
    setting: PlanSetting, choices: PlanChoices, plan: BufferPlan, stage: int, live: list[OcmBuffer]
) -> Iterator[Relief]:
    """Yield the ways to take less memory in a stage.

    Args:
        setting: What the plan is made for.
        choices: As they are.
        plan: The buffers of these choices.
        stage: A stage, or the number of stages for the time after the last.
        live: The buffers that are in use in that stage, without pinned ones.
    """
    for buffer in live:
        if buffer.use is OcmBufferUse.VALUE:
            yield _to_ddr(setting, choices, plan, stage, buffer)
        elif buffer.use is OcmBufferUse.WEIGHTS:
            yield from _smaller_weights(setting, choices, buffer)
        else:
            yield from _smaller_stripes(setting, choices, buffer)
        if _waits(setting, buffer) and choices.ahead(buffer.layer) and plan.first[buffer.layer] > stage:
            later = choices.with_lead(buffer.layer, 0)
            cost = _transfer(setting, aligned(buffer.bytes) * len(buffer.boxes), len(buffer.boxes))
            yield Relief(later, buffer.layer, aligned(buffer.bytes), cost)


def _waits(setting: PlanSetting, buffer: OcmBuffer) -> bool:
    return buffer.use is not OcmBufferUse.OUTPUT and (not buffer.root or not setting.uses[buffer.root].writers)


def _to_ddr(setting: PlanSetting, choices: PlanChoices, plan: BufferPlan, stage: int, buffer: OcmBuffer) -> Relief:
    use = setting.uses[buffer.root]
    touched = any(plan.first[number] - 1 <= stage <= plan.last[number] + 1 for number in (*use.writers, *use.readers))
    gain = aligned(buffer.bytes) // (_TOUCHED_GAIN if touched else 1)
    passes = len(use.readers) + bool(use.writers) - (not use.writers)
    size = setting.aliased.network.values[buffer.root].elements * setting.item
    transfers = len(buffer.boxes) * max(passes, 1)
    spilled = replace(choices, in_ddr=choices.in_ddr | {buffer.root})
    return Relief(spilled, buffer.root, gain, _transfer(setting, size * passes, transfers))


def _smaller_weights(setting: PlanSetting, choices: PlanChoices, buffer: OcmBuffer) -> Iterator[Relief]:
    layer, choice = setting.layers[buffer.layer], choices.layers[buffer.layer]
    if choice.whole_weights and len(buffer.boxes) > 1:
        least = replace(choice, whole_weights=False)
        gain = aligned(buffer.bytes) * (len(buffer.boxes) - 1) // len(buffer.boxes)
        cost = _transfer(setting, 0, len(buffer.boxes))
        yield Relief(choices.with_layer(buffer.layer, least), buffer.layer, gain, cost)
    elif choice.channel_stripes < most_stripes(layer, choice)[1]:
        more = min(choice.channel_stripes * 2, most_stripes(layer, choice)[1])
        yield Relief(
            choices.with_layer(buffer.layer, replace(choice, channel_stripes=more, whole_weights=False)),
            buffer.layer,
            aligned(buffer.bytes) // 2,
            _stages(setting, choice.row_stripes * (more - choice.channel_stripes), choice.tiles),
        )


def _smaller_stripes(setting: PlanSetting, choices: PlanChoices, buffer: OcmBuffer) -> Iterator[Relief]:
    layer, choice = setting.layers[buffer.layer], choices.layers[buffer.layer]
    rows, channels = most_stripes(layer, choice)
    if choice.row_stripes < rows:
        more = min(choice.row_stripes * 2, rows)
        cost = _stages(setting, choice.channel_stripes * (more - choice.row_stripes), choice.tiles)
        stripes = replace(choice, row_stripes=more)
        yield Relief(choices.with_layer(buffer.layer, stripes), buffer.layer, aligned(buffer.bytes) // 2, cost)
    elif choice.channel_stripes < channels and (
        layer.task is not TaskKind.CONVOLUTION or layer.groups > 1 or buffer.use is OcmBufferUse.OUTPUT
    ):
        more = min(choice.channel_stripes * 2, channels)
        cost = _stages(setting, choice.row_stripes * (more - choice.channel_stripes), choice.tiles)
        stripes = replace(choice, channel_stripes=more, whole_weights=False)
        yield Relief(choices.with_layer(buffer.layer, stripes), buffer.layer, aligned(buffer.bytes) // 2, cost)


def _stages(setting: PlanSetting, count: int, tiles: int) -> int:
    profile = setting.profile
    return count * (profile.issue_cycles + profile.barrier_cycles + profile.ddr_start_cycles * tiles)


def _transfer(setting: PlanSetting, size: int, transfers: int) -> int:
    return max(size, 0) // setting.profile.ddr_bytes + transfers * setting.profile.ddr_start_cycles
