"""From a plan to a program, with what it says about its layers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import accumulate

from nnhal_mlip.compiler.emission.copies import TileKnowledge, tile_copies
from nnhal_mlip.compiler.emission.ddr import DdrMap, map_ddr
from nnhal_mlip.compiler.emission.tasks import stage_tasks
from nnhal_mlip.compiler.emission.transfers import OrderedTransfer, TransferRank, ordered_transfers
from nnhal_mlip.compiler.geometry.boxes import common, whole
from nnhal_mlip.compiler.planning.choices import shares
from nnhal_mlip.compiler.planning.plans import TilePlan
from nnhal_mlip.program.program import LayerRecord, LayerSplit, MlipProgram, ProgramStage


def emit(plan: TilePlan, scales: Mapping[str, float]) -> tuple[MlipProgram, DdrMap]:
    """Return the program of a plan that fits, and where its values lie in DDR.

    Args:
        plan: A plan that fits.
        scales: The real value of 1 of every value; 1 in fp16.
    """
    setting = plan.setting
    network = setting.aliased.network
    ddr = map_ddr(plan, scales)
    transfers = ordered_transfers(plan, ddr)
    waits = _waits(plan, transfers)
    known = TileKnowledge(setting, plan.choices)
    stages = []
    for number, stage in enumerate(plan.buffers.stages):
        begins = number == plan.buffers.first[stage.layer]
        copies = tile_copies(plan, known.fetch(stage.layer)) if begins else ()
        tasks = tuple(stage_tasks(plan, number, scales))
        stages.append(ProgramStage(setting.layers[stage.layer].kernel, waits[number], copies, tasks))
    program = MlipProgram(
        name=network.name,
        tiles=setting.tiles,
        batch=network.batch,
        type=setting.type,
        pinned=setting.pinned,
        layers=layer_records(plan),
        transfers=tuple(one.transfer for one in transfers),
        stages=tuple(stages),
        inputs=ddr.inputs,
        outputs=ddr.outputs,
        scratch_bytes=ddr.scratch_bytes,
        ocm_weights_bytes=plan.weights_end,
        ocm_scratch_floor=plan.floor,
    )
    return program, ddr


def _waits(plan: TilePlan, transfers: list[OrderedTransfer]) -> list[int]:
    """Return how many transfers each stage waits for.

    A stage waits for its loads. One that begins to write a buffer also waits for the stores from all buffers whose time
    is over, since one of them may have lain there. The addresses are not asked, so that a program's time does not
    depend on them.
    """
    waits = [0] * len(plan.buffers.stages)
    over = [0] * (len(waits) + 2)
    for number, one in enumerate(transfers):
        if one.rank is TransferRank.STORE:
            over[one.buffer.end + 1] = max(over[one.buffer.end + 1], number + 1)
        else:
            waits[one.stage] = max(waits[one.stage], number + 1)
    stored = list(accumulate(over, max))
    for buffer in (*plan.buffers.values.values(), *plan.buffers.written.values()):
        if plan.setting.uses[buffer.root].writers:
            waits[buffer.begin] = max(waits[buffer.begin], stored[buffer.begin])
    return waits


def layer_records(plan: TilePlan) -> tuple[LayerRecord, ...]:
    """Return a record for each kernel. One that is a view, or is done by others, has no tiles and no stripes."""
    setting = plan.setting
    records = []
    for number, note in enumerate(setting.aliased.network.kernels):
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
    constants = [setting.aliased.network.values[root] for root in operands if setting.is_constant(root)]
    return setting.constants_bytes(layer, layer.extents[3]) + sum(value.elements * setting.item for value in constants)


def _origins(plan: TilePlan, number: int) -> Iterator[int]:
    """Yield the kernels, or inputs as negative numbers, from where a layer's inputs are."""
    setting = plan.setting
    aliased = setting.aliased
    for operand in setting.layers[number].inputs:
        root = setting.root(operand.value)
        if root in aliased.network.inputs:
            yield -1 - aliased.network.inputs.index(root)
        read = aliased.root_box(operand.value, whole(setting.extents(operand.value)))
        for writer in setting.uses[root].writers:
            output = setting.layers[writer].output.value
            if common(read, aliased.root_box(output, whole(setting.extents(output)))) is not None:
                yield setting.layers[writer].kernel
