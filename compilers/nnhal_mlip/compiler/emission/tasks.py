"""The tasks of a stage."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import prod

from nnhal_mlip.compiler.geometry.box_bytes import PlacedBox
from nnhal_mlip.compiler.geometry.boxes import Extents, TensorBox, dense_strides, position
from nnhal_mlip.compiler.layers.needs import needed, rows_and_columns
from nnhal_mlip.compiler.layers.tile_layers import LayerOperand, TileLayer
from nnhal_mlip.compiler.planning.plans import TilePlan
from nnhal_mlip.compiler.planning.setting import PlanSetting, constants_layout
from nnhal_mlip.program.program import ELEMENT_KINDS, OcmView, TaskKind, TaskWindow, TensorType, TileTask


def stage_tasks(plan: TilePlan, stage: int, scales: Mapping[str, float]) -> Iterator[TileTask]:
    """Yield the tasks of a stage, tile by tile; groups of a convolution and matrices of a MATMUL are a task each."""
    setting = plan.setting
    planned = plan.buffers.stages[stage]
    layer = setting.layers[planned.layer]
    for tile, box in planned.stripe.boxes.items():
        step = layer.extents[3] // layer.groups if layer.groups > 1 else box.stops[3] - box.starts[3]
        parts = [box.along(3, channel, channel + step) for channel in range(box.starts[3], box.stops[3], step)]
        for axis in (0, 1) if layer.task is TaskKind.MATMUL else ():
            parts = [part.along(axis, n, n + 1) for part in parts for n in range(part.starts[axis], part.stops[axis])]
        for part in parts:
            yield _task(plan, stage, tile, layer, part, scales)


def _task(
    plan: TilePlan, stage: int, tile: int, layer: TileLayer, box: TensorBox, scales: Mapping[str, float]
) -> TileTask:
    setting, buffers = plan.setting, plan.buffers
    views = []
    for index, operand in enumerate(layer.inputs):
        root = setting.root(operand.value)
        buffer = buffers.values.get(root) or buffers.staged[stage, root]
        view = _view(setting, operand, needed(layer, box, setting.seen(operand), index), plan.placed(buffer, tile))
        views.append(_repeated(view, box.shape) if layer.task in ELEMENT_KINDS else view)
    root = setting.root(layer.output.value)
    buffer = buffers.values.get(root) or buffers.written[stage]
    output = _view(setting, layer.output, box, plan.placed(buffer, tile))
    scale = scales[layer.output.value]
    task = TileTask(
        tile,
        layer.task,
        tuple(views),
        output,
        window=_window(setting, layer, box),
        range=layer.range,
        output_scale=scale,
    )
    if layer.weights is not None:
        return _with_constants(plan, stage, layer, box, task)
    if setting.type is TensorType.INT8:
        factors = [scales[operand.value] for operand in layer.inputs]
        if layer.task in (TaskKind.PRODUCT, TaskKind.MATMUL):
            return replace(task, input_factors=(prod(factors) / scale, *(1.0 for _ in factors[1:])))
        return replace(task, input_factors=tuple(factor / scale for factor in factors))
    return task


def _with_constants(plan: TilePlan, stage: int, layer: TileLayer, box: TensorBox, task: TileTask) -> TileTask:
    assert layer.weights is not None
    setting = plan.setting
    planned = plan.buffers.stages[stage]
    buffer = plan.buffers.weights[planned.layer, planned.stripe.channel]
    held = buffer.boxes[task.tile]
    first, count = box.starts[3] - held.starts[3], box.stops[3] - box.starts[3]
    layout = constants_layout(layer, held.stops[3] - held.starts[3], setting.type)
    address = plan.address(buffer)
    _, height, width, inputs = layer.weights.kernel.shape
    item = setting.item
    if layer.task is TaskKind.DEPTHWISE:
        strides = dense_strides((1, height, width, held.stops[3] - held.starts[3]), item)
        weights = OcmView(address + first * item, (1, height, width, count), strides, setting.type)
    else:
        shape = (count, height, width, inputs)
        strides = dense_strides(shape, item)
        weights = OcmView(address + first * strides[0], shape, strides, setting.type)
    return replace(
        task,
        weights=weights,
        biases=-1 if layer.weights.biases is None else address + layout.biases + 4 * first,
        factors=address + layout.factors + 4 * first if setting.type is TensorType.INT8 else -1,
    )


def _window(setting: PlanSetting, layer: TileLayer, box: TensorBox) -> TaskWindow:
    if layer.task in ELEMENT_KINDS or layer.task is TaskKind.MATMUL:
        return layer.window
    rows, columns = rows_and_columns(layer, box, setting.seen(layer.inputs[0]))
    return layer.window._replace(padding=(rows.before, columns.before, rows.after, columns.after))


def _view(setting: PlanSetting, operand: LayerOperand, box: TensorBox, placed: PlacedBox) -> OcmView:
    alias = setting.aliased.aliases[operand.value]
    part = box.permuted(operand.axes)
    if alias.view:
        extents = setting.extents(operand.value)
        strides = dense_strides(extents, setting.item)
        first = position(placed.box.starts, setting.extents(alias.root))
        address = placed.address + (position(part.starts, extents) - first) * setting.item
    else:
        strides = placed.strides
        address = placed.address_of(part.moved(alias.offset).starts)
    a, b, c, d = operand.axes
    return OcmView(address, box.shape, (strides[a], strides[b], strides[c], strides[d]), setting.type)


def _repeated(view: OcmView, shape: Extents) -> OcmView:
    steps = [stride if have == want else 0 for have, want, stride in zip(view.shape, shape, view.strides, strict=True)]
    return view._replace(shape=shape, strides=(steps[0], steps[1], steps[2], steps[3]))
