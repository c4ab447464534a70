"""Networks as the MLIP's programs, of which only the time matters: every tensor lies at one address."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from nnhal_mlip.program.program import (
    DdrRange,
    DdrTransfer,
    LayerRecord,
    LayerSplit,
    MlipProgram,
    OcmView,
    ProgramStage,
    Strided,
    TaskKind,
    TaskWindow,
    TensorType,
    TileTask,
)
from nnhal_mlip.program.sizes import TYPE_BYTES, ceil_divide
from nnhal_mlip.timing.cycles import LayerShape, layer_cycles
from nnhal_mlip.timing.profile import TimingProfile

IMAGE, CLASSES = 3 * 224 * 224, 1000
"""Elements of the input and of the output of the networks here."""


class Layer(NamedTuple):
    """A layer with a square output and kernel."""

    kind: TaskKind
    size: int
    channels: int
    kernel: int = 1
    input_channels: int = 1

    @property
    def weights(self) -> int:
        """Elements, without biases."""
        if self.kind is TaskKind.CONVOLUTION:
            return self.channels * self.kernel**2 * self.input_channels
        return self.channels * self.kernel**2 if self.kind is TaskKind.DEPTHWISE else 0

    def shape(self, element_type: TensorType) -> LayerShape:
        """Its work in a batch of 1."""
        reduction = self.kernel**2 * (self.input_channels if self.kind is TaskKind.CONVOLUTION else 1)
        inputs = 2 if self.kind is TaskKind.SUM else 1
        return LayerShape(self.kind, element_type, 1, self.size, self.size, self.channels, reduction, inputs)


def resnet50(*, sums: bool = True) -> list[Layer]:
    """ResNet-50 v1.5, with or without what is neither convolution nor dense."""
    conv = TaskKind.CONVOLUTION
    layers = [Layer(conv, 112, 64, 7, 3), Layer(TaskKind.MAX_POOL, 56, 64, 3)]
    channels = 64
    for middle, out, blocks, size in ((64, 256, 3, 56), (128, 512, 4, 28), (256, 1024, 6, 14), (512, 2048, 3, 7)):
        for block in range(blocks):
            before = size if block or size == 56 else 2 * size
            layers += [Layer(conv, before, middle, 1, channels), Layer(conv, size, middle, 3, middle)]
            layers.append(Layer(conv, size, out, 1, middle))
            if not block:
                layers.append(Layer(conv, size, out, 1, channels))
            layers.append(Layer(TaskKind.SUM, size, out))
            channels = out
    layers += [Layer(TaskKind.AVERAGE_POOL, 1, 2048, 7), Layer(conv, 1, 1000, 1, 2048)]
    return layers if sums else [layer for layer in layers if layer.kind is conv]


def resnet18() -> list[Layer]:
    """ResNet-18 v1."""
    conv = TaskKind.CONVOLUTION
    layers = [Layer(conv, 112, 64, 7, 3), Layer(TaskKind.MAX_POOL, 56, 64, 3)]
    channels = 64
    for out, size in ((64, 56), (128, 28), (256, 14), (512, 7)):
        for block in range(2):
            layers += [Layer(conv, size, out, 3, channels), Layer(conv, size, out, 3, out)]
            if not block and out != 64:
                layers.append(Layer(conv, size, out, 1, channels))
            layers.append(Layer(TaskKind.SUM, size, out))
            channels = out
    return [*layers, Layer(TaskKind.AVERAGE_POOL, 1, 512, 7), Layer(conv, 1, 1000, 1, 512)]


def mobilenet() -> list[Layer]:
    """MobileNet v1."""
    layers = [Layer(TaskKind.CONVOLUTION, 112, 32, 3, 3)]
    channels, size = 32, 112
    for out, stride in (
        (64, 1),
        (128, 2),
        (128, 1),
        (256, 2),
        (256, 1),
        (512, 2),
        *[(512, 1)] * 5,
        (1024, 2),
        (1024, 1),
    ):
        size //= stride
        layers.append(Layer(TaskKind.DEPTHWISE, size, channels, 3))
        layers.append(Layer(TaskKind.CONVOLUTION, size, out, 1, channels))
        channels = out
    return [*layers, Layer(TaskKind.AVERAGE_POOL, 1, 1024, 7), Layer(TaskKind.CONVOLUTION, 1, 1000, 1, 1024)]


def network_program(
    layers: Sequence[Layer], element_type: TensorType, tiles: int, profile: TimingProfile, *, pinned: bool = False
) -> MlipProgram:
    """Return a stage for each layer, split in the fastest way; two layers' weights have a place at a time."""
    size = TYPE_BYTES[element_type]
    transfers = [_transfer(0, 0, DdrRange.INPUTS, IMAGE * size)]
    stages: list[ProgramStage] = []
    weighted: list[int] = []
    """Stages with weights."""
    if pinned:
        transfers = [
            *(
                _transfer(number, 0, DdrRange.WEIGHTS, layer.weights * size, at_start=True)
                for number, layer in enumerate(layers)
                if layer.weights
            ),
            *transfers,
        ]
    for number, layer in enumerate(layers):
        if layer.weights and not pinned:
            free = weighted[-2] + 1 if len(weighted) > 1 else 0
            transfers.append(_transfer(number, free, DdrRange.WEIGHTS, layer.weights * size))
        if layer.weights:
            weighted.append(number)
        stages.append(ProgramStage(number, len(transfers), (), _tasks(layer, element_type, tiles, profile)))
    transfers.append(_transfer(len(layers) - 1, len(stages), DdrRange.OUTPUTS, CLASSES * size))
    records = [
        LayerRecord(f"layer{number}", "", (), layer.shape(element_type).macs, 0, LayerSplit.ROWS, tiles, 1, False)
        for number, layer in enumerate(layers)
    ]
    return MlipProgram(
        "network", tiles, 1, element_type, pinned, tuple(records), tuple(transfers), tuple(stages), (), (), 0, 0, 0
    )


def _transfer(layer: int, after_stage: int, ddr: DdrRange, count: int, *, at_start: bool = False) -> DdrTransfer:
    pieces = Strided(0, 1, count, count)
    return DdrTransfer(layer, after_stage, ddr is DdrRange.OUTPUTS, at_start, 1, ddr, pieces, pieces)


def _tasks(layer: Layer, element_type: TensorType, tiles: int, profile: TimingProfile) -> tuple[TileTask, ...]:
    shape = layer.shape(element_type)
    _, split, share = min(
        (layer_cycles(shape, split, count, profile), split, count)
        for split in LayerSplit
        for count in range(1, tiles + 1)
    )
    extent = layer.size if split is LayerSplit.ROWS else layer.channels
    step = ceil_divide(extent, share)
    window = TaskWindow((layer.kernel, layer.kernel))
    tasks = []
    for tile, begin in enumerate(range(0, extent, step)):
        part = min(step, extent - begin)
        rows, channels = (part, layer.channels) if split is LayerSplit.ROWS else (layer.size, part)
        views = (_view(layer.size, layer.size, layer.input_channels, element_type),) * shape.inputs
        output = _view(rows, layer.size, channels, element_type)
        tasks.append(TileTask(tile, layer.kind, views, output, window=window))
    return tuple(tasks)


def _view(height: int, width: int, channels: int, element_type: TensorType) -> OcmView:
    return OcmView(0, (1, height, width, channels), (0, 0, 0, 0), element_type)
