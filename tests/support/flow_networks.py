"""Well-known networks as flow graphs, with random weights. Input x, in NCHW unless a layout is given."""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import DTypeLike

from nnhal_mlip.flow.graph.flow_graph import FlowGraph
from tests.support.flow_graphs import GraphOf, Pair, Sides

_STAGES = (64, 128, 256, 512)
_GAIN, _PROJECTION_GAIN = 0.3, 0.6
"""Of the residuals and of the inputs that are projected, so that their sums do not grow from block to block."""


@cache
def resnet18(side: int = 224, classes: int = 1000, *, layout: str = "NCHW", seed: int = 0) -> FlowGraph:
    """Return ResNet-18: two blocks of two convolutions in each stage."""
    return _resnet((2, 2, 2, 2), False, side, classes, layout, seed)


def resnet50(side: int = 224, classes: int = 1000, *, layout: str = "NCHW", seed: int = 0) -> FlowGraph:
    """Return ResNet-50 v1.5: blocks of three convolutions, of which the second has the stride."""
    return _resnet((3, 4, 6, 3), True, side, classes, layout, seed)


def mobilenet_v1(
    side: int = 224, classes: int = 1000, *, relu6: bool = True, width: float = 1.0, seed: int = 0
) -> FlowGraph:
    """Return MobileNet v1; with relu in place of relu6 if asked."""
    g = GraphOf(seed=seed)

    def unit(data: str, channels: int, kernel: int, stride: int, groups: int) -> str:
        data = g.conv(data, channels, kernel, stride=stride, pad=kernel // 2, groups=groups)
        data = g.batch_norm(data)
        return g.clip(data) if relu6 else g.relu(data)

    def channels(count: int) -> int:
        return max(8, int(count * width))

    data = unit(g.input(1, 3, side, side), channels(32), 3, 2, 1)
    plan = [(64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *[(512, 1)] * 5, (1024, 2), (1024, 1)]
    for count, stride in plan:
        inner = g.shape(data)[1]
        data = unit(data, inner, 3, stride, inner)
        data = unit(data, channels(count), 1, 1, 1)
    data = g.flatten(g.global_avg_pool(data))
    return g.build(g.softmax(g.bias(g.dense(data, classes))))


def inception_block(
    channels: int = 32, side: int = 16, *, width: int = 16, layout: str = "NCHW", seed: int = 0
) -> FlowGraph:
    """Return four branches that are concatenated: 1x1, 3x3, 5x5 by two of 3x3, and a pool."""
    g = GraphOf(layout, seed)
    x = _image(g, channels, side)
    one = _unit(g, x, width, 1)
    three = _unit(g, _unit(g, x, width, 1), width, 3, pad=1)
    five = _unit(g, _unit(g, _unit(g, x, width, 1), width, 3, pad=1), width, 3, pad=1)
    pooled = _unit(g, g.max_pool(x, 3, 1, 1), width, 1)
    return g.build(g.concat(one, three, five, pooled, name="joined"))


def ssd_head(side: int = 32, classes: int = 5, anchors: int = 4, *, seed: int = 0) -> FlowGraph:
    """Return a small backbone with three scales; class scores and boxes of each are reshaped and joined.

    Outputs: ``scores`` [1, boxes, classes] after a softmax, and ``boxes`` [1, boxes, 4].
    """
    g = GraphOf(seed=seed)
    data = g.input(1, 3, side, side)
    scores: list[str] = []
    boxes: list[str] = []
    for channels in (16, 32, 32):
        data = _unit(g, data, channels, 3, stride=2, pad=1)
        for kind, found in ((classes, scores), (4, boxes)):
            head = g.bias(g.conv(data, anchors * kind, 3, pad=1))
            flat = g.transpose(head, 0, 2, 3, 1)
            _, height, width, _ = g.shape(flat)
            found.append(g.reshape(flat, 1, height * width * anchors, kind))
    joined = g.softmax(g.concat(*scores, axis=1), 2, name="scores")
    return g.build(joined, g.concat(*boxes, axis=1, name="boxes"))


def mlp(
    *units: int, inputs: int = 64, batch: int = 1, seed: int = 0, element_type: DTypeLike = np.float32
) -> FlowGraph:
    """Return dense layers with biases, relu between them and a softmax at the end. Without ``units`` 128, 32, 10."""
    g = GraphOf(seed=seed, element_type=element_type)
    data = g.input(batch, inputs)
    *hidden, last = units or (128, 32, 10)
    for count in hidden:
        data = g.relu(g.bias(g.dense(data, count)))
    return g.build(g.softmax(g.bias(g.dense(data, last))))


def _resnet(blocks: tuple[int, ...], bottleneck: bool, side: int, classes: int, layout: str, seed: int) -> FlowGraph:
    g = GraphOf(layout, seed)
    data = _unit(g, _image(g, 3, side), 64, 7, stride=2, pad=3)
    data = g.max_pool(data, 3, 2, 1)
    for stage, count in enumerate(blocks):
        for block in range(count):
            stride = 2 if stage and not block else 1
            make = _bottleneck if bottleneck else _basic
            data = make(g, data, _STAGES[stage], stride)
    data = g.flatten(g.global_avg_pool(data))
    return g.build(g.bias(g.dense(data, classes), name="logits"))


def _basic(g: GraphOf, data: str, channels: int, stride: int) -> str:
    inner = _unit(g, data, channels, 3, stride=stride, pad=1)
    return _joined(g, data, g.batch_norm(g.conv(inner, channels, 3, pad=1), _GAIN), channels, stride)


def _bottleneck(g: GraphOf, data: str, channels: int, stride: int) -> str:
    inner = _unit(g, _unit(g, data, channels, 1), channels, 3, stride=stride, pad=1)
    return _joined(g, data, g.batch_norm(g.conv(inner, 4 * channels, 1), _GAIN), 4 * channels, stride)


def _joined(g: GraphOf, data: str, residual: str, channels: int, stride: int) -> str:
    given = g.shape(data)[g.layout.index("C")]
    if stride > 1 or given != channels:
        data = g.batch_norm(g.conv(data, channels, 1, stride=stride), _PROJECTION_GAIN)
    return g.relu(g.op("add", residual, data))


def _unit(g: GraphOf, data: str, channels: int, kernel: Pair, *, stride: Pair = 1, pad: Sides = 0) -> str:
    return g.relu(g.batch_norm(g.conv(data, channels, kernel, stride=stride, pad=pad)))


def _image(g: GraphOf, channels: int, side: int) -> str:
    return g.input(*((1, channels, side, side) if g.layout == "NCHW" else (1, side, side, channels)))
