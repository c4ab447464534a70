"""Chains of parts, and how long planning takes for them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from statistics import median

from nnhal_cascade.compiler import CompilerOptions, compile_graph
from nnhal_cascade.geometry.accesses import Everything, OneToOne, Windowed
from nnhal_cascade.geometry.box import Shape
from nnhal_cascade.graph.cascader_graph import (
    CascaderGraph,
    CascaderTensor,
    Kernel,
    Part,
    PartConstants,
    PartInput,
    PartKind,
)
from nnhal_cascade.hardware.memory import System

_ROWS = 48
_CHANNELS = (16, 24, 32, 40, 24)
"""The channels of the outputs of convolutions, in turn."""
_ROUNDS = 3


def chain(parts: int) -> CascaderGraph:
    """Return convolutions of 1x1 and depthwise ones of 3x3 in turn, on 48 rows and columns."""
    channels = [_CHANNELS[0]]
    channels += [_CHANNELS[(index // 2 + 1) % len(_CHANNELS)] for index in range(parts)]
    tensors = tuple(
        CascaderTensor(index, f"tensor {index}", Shape(_ROWS, _ROWS, count), index, index == 0, index == parts)
        for index, count in enumerate(channels)
    )
    return CascaderGraph(tuple(_part(index, channels[index]) for index in range(parts)), tensors)


def planning_seconds(counts: Sequence[int], system: System) -> list[tuple[float, float]]:
    """Return, for each number of parts, the median processor time to plan a chain of them."""
    found = []
    for count in counts:
        graph, seconds = chain(count), []
        for _ in range(_ROUNDS):
            started = time.process_time()
            compile_graph(graph, system, CompilerOptions())
            seconds.append(time.process_time() - started)
        found.append((float(count), median(seconds)))
    return found


def _part(index: int, before: int) -> Part:
    if index % 2:
        around = Windowed(_ROWS, kernel=3, before=1)
        access = PartInput(index, around, around, OneToOne(before))
        kind, kernel, constants = PartKind.DEPTHWISE, Kernel(3, 3), PartConstants(9, 10)
    else:
        access = PartInput(index, OneToOne(_ROWS), OneToOne(_ROWS), Everything(before))
        kind, kernel, constants = PartKind.CONVOLUTION, Kernel(), PartConstants(before, 10)
    name = f"part {index}, {kind}"
    operation = "DEPTHWISE_CONV_2D" if index % 2 else "CONV_2D"
    return Part(index, name, kind, (index,), (access,), index + 1, kernel, constants, operation=operation)
