"""What a program says about its layers."""

from __future__ import annotations

from collections.abc import Iterator

from nnhal_mlip.compiler.geometry.boxes import common, whole
from nnhal_mlip.compiler.planning.plans import TilePlan
from nnhal_mlip.compiler.planning.splits import shares
from nnhal_mlip.program.program import LayerRecord, LayerSplit


def layer_records(plan: TilePlan) -> tuple[LayerRecord, ...]:
    """Return a record for each kernel. One that is a view, or is done by others, has no tiles and no stripes."""
    setting = plan.setting
    records = []
    for number, note in enumerate(setting.housed.network.kernels):
        layers = [at for at, layer in enumerate(setting.layers) if layer.kernel == number]
        choices = [plan.choices.layers[at] for at in layers]
        records.append(
            LayerRecord(
                note.name,
                note.kind,
                note.user_names,
                sum(setting.layers[at].macs for at in layers),
                sum(_constant_bytes(plan, at) for at in layers),
                choices[0].split if choices else LayerSplit.ROWS,
                max(
                    (
                        len(shares(setting.layers[at], one.split, one.tiles))
                        for at, one in zip(layers, choices, strict=True)
                    ),
                    default=0,
                ),
                sum(plan.buffers.last[at] - plan.buffers.first[at] + 1 for at in layers),
                any(setting.root(setting.layers[at].output.value) in plan.choices.in_ddr for at in layers),
                tuple(dict.fromkeys(origin for at in layers for origin in _origins(plan, at))),
            )
        )
    return tuple(records)


def _constant_bytes(plan: TilePlan, number: int) -> int:
    setting = plan.setting
    layer = setting.layers[number]
    operands = dict.fromkeys(setting.root(operand.value) for operand in layer.inputs)
    constants = [setting.housed.network.values[root] for root in operands if setting.is_constant(root)]
    return setting.constants_bytes(layer, layer.extents[3]) + sum(value.elements * setting.item for value in constants)


def _origins(plan: TilePlan, number: int) -> Iterator[int]:
    """Yield the kernels, or inputs as negative numbers, from where a layer's inputs are."""
    setting = plan.setting
    housed = setting.housed
    for operand in setting.layers[number].inputs:
        root = setting.root(operand.value)
        if root in housed.network.inputs:
            yield -1 - housed.network.inputs.index(root)
        read = housed.root_box(operand.value, whole(setting.extents(operand.value)))
        for writer in setting.uses[root].writers:
            output = setting.layers[writer].output.value
            if common(read, housed.root_box(output, whole(setting.extents(output)))) is not None:
                yield setting.layers[writer].kernel
