"""A network of four parts with a schedule made by hand, and the same network as a TFLite file.

A convolution, a depthwise convolution and an addition that reads both run as a cascade in rows; the convolution of 1x1
behind them runs in two stripes of channels.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from tflite import Padding

from nnhal_cascade.command.report import CascadeReport, FrontierPoint
from nnhal_cascade.command.schedule_report import schedule_report
from nnhal_cascade.geometry.accesses import Everything, OneToOne, Windowed
from nnhal_cascade.geometry.box import Axis, Shape, whole
from nnhal_cascade.graph.cascader_graph import (
    CascaderGraph,
    CascaderTensor,
    Kernel,
    Part,
    PartConstants,
    PartInput,
    PartKind,
)
from nnhal_cascade.hardware.memory_file import system_for
from nnhal_cascade.plans.plan import Plan, Proposal, WeightsIn
from nnhal_cascade.schedule.replay import PlanReplay, replay
from nnhal_cascade.schedule.schedule import ConstantsBuffer, Schedule, TensorBuffer
from tests.support.tflite_files import Spec, TfliteFile, int8

SIDE = 8
"""Rows and columns of all tensors."""
SYSTEM = system_for("u55-128")
PEAK = 2720
"""Bytes: the end of the highest buffer of the schedule."""

_WINDOW = Windowed(SIDE, kernel=3, before=1)
_SAME = OneToOne(SIDE)


def _tensor(index: int, name: str, channels: int, is_input: bool = False, is_output: bool = False) -> CascaderTensor:
    return CascaderTensor(index, name, Shape(SIDE, SIDE, channels), index, is_input, is_output)


GRAPH = CascaderGraph(
    (
        Part(
            0,
            "a (CONV_2D)",
            PartKind.CONVOLUTION,
            (0,),
            (PartInput(0, _WINDOW, _WINDOW, Everything(4)),),
            1,
            Kernel(3, 3),
            PartConstants(36, 10),
            operation="CONV_2D",
        ),
        Part(
            1,
            "b (DEPTHWISE_CONV_2D)",
            PartKind.DEPTHWISE,
            (1,),
            (PartInput(1, _WINDOW, _WINDOW, OneToOne(8)),),
            2,
            Kernel(3, 3),
            PartConstants(9, 10),
            operation="DEPTHWISE_CONV_2D",
        ),
        Part(
            2,
            "c (ADD)",
            PartKind.ELEMENTWISE,
            (2,),
            (PartInput(2, _SAME, _SAME, OneToOne(8)), PartInput(1, _SAME, _SAME, OneToOne(8))),
            3,
            operation="ADD",
        ),
        Part(
            3,
            "d (CONV_2D)",
            PartKind.CONVOLUTION,
            (3,),
            (PartInput(3, _SAME, _SAME, Everything(8)),),
            4,
            Kernel(),
            PartConstants(8, 10),
            operation="CONV_2D",
        ),
    ),
    (
        _tensor(0, "image", 4, is_input=True),
        _tensor(1, "a", 8),
        _tensor(2, "b", 8),
        _tensor(3, "c", 8),
        _tensor(4, "d", 16, is_output=True),
    ),
)


def schedule() -> Schedule:
    """Return a schedule whose buffers share no address, with its cycles."""
    cascade = Plan(
        (0, 1, 2),
        (1, 1, 1),
        (WeightsIn.RESIDENT, WeightsIn.STREAMED, WeightsIn.NONE),
        (whole(GRAPH.tensors[3].shape),),
    )
    alone = Plan((3,), (8,), (WeightsIn.DOUBLE_BUFFERED,), (whole(GRAPH.tensors[4].shape),), Axis.CHANNELS)
    row = SIDE * 8
    made = Schedule(
        GRAPH,
        SYSTEM,
        Proposal((cascade, alone), PEAK, 0),
        (False, False),
        (
            TensorBuffer(0, "sram", 0, GRAPH.tensors[0].shape, 1, 0, 0),
            TensorBuffer(1, "sram", 256, Shape(3, SIDE, 8), 1, 0, 0),
            TensorBuffer(2, "sram", 256 + 3 * row, Shape(1, SIDE, 8), 1, 0, 0),
            TensorBuffer(3, "sram", 512, GRAPH.tensors[3].shape, 1, 0, 1),
            TensorBuffer(4, "sram", 1024, GRAPH.tensors[4].shape, 1, 1, 1),
        ),
        (ConstantsBuffer(0, "sram", 2048, 8 * 46, 1, 0, 0), ConstantsBuffer(3, "sram", 2432, 8 * 18, 2, 1, 1)),
        PEAK,
    )
    return replace(made, cycles=replay(made)[-1].end)


def story(model: str = "network.tflite", with_frontier: bool = True) -> CascadeReport:
    """Tell of the schedule, and of two more points of a frontier."""
    made = schedule()
    told = schedule_report(model, 4096, made, replay(made))
    if not with_frontier:
        return told
    time = told.planned.milliseconds
    points = (
        FrontierPoint(8192, made.cycles // 2, time / 2, 0.0, (), 1, False),
        FrontierPoint(PEAK, made.cycles, time, 1.0, ((0, 2),), 1, True),
        FrontierPoint(1500, made.cycles * 2, time * 2, 3.0, ((0, 2),), 4, False),
    )
    return replace(told, frontier=points)


def replays() -> tuple[PlanReplay, ...]:
    """Return the schedule as it runs."""
    return replay(schedule())


def write_network(path: Path, element_type: type[np.generic] = np.int8, refused: bool = False) -> Path:
    """Write the network as a TFLite file, of 8 bits or of floats; ``refused``: with an operation that is, before d."""
    file = TfliteFile()
    generator = np.random.default_rng(0)
    small = element_type is np.int8

    def spec(*shape: int, scale: float = 0.05) -> Spec:
        return int8(*shape, scale=scale, zero_point=0) if small else Spec(shape, np.float32)

    def constant(*shape: int) -> int:
        return file.constant(generator.integers(-8, 8, shape).astype(element_type), spec(*shape, scale=0.02))

    def bias(channels: int) -> int:
        zeros = np.zeros(channels, np.int32 if small else np.float32)
        return file.constant(zeros, Spec([channels], np.int32, 0.001) if small else None)

    same = {"Padding": Padding.SAME, "StrideW": 1, "StrideH": 1}
    image = file.input("image", spec(1, SIDE, SIDE, 4))
    (a,) = file.operator(
        "CONV_2D", [image, constant(8, 3, 3, 4), bias(8)], {"a": spec(1, SIDE, SIDE, 8)}, ("Conv2DOptions", same)
    )
    depthwise = ("DepthwiseConv2DOptions", {**same, "DepthMultiplier": 1})
    (b,) = file.operator(
        "DEPTHWISE_CONV_2D", [a, constant(1, 3, 3, 8), bias(8)], {"b": spec(1, SIDE, SIDE, 8)}, depthwise
    )
    (c,) = file.operator("ADD", [b, a], {"c": spec(1, SIDE, SIDE, 8)}, ("AddOptions", {}))
    if refused:
        unit = int8(1, SIDE, SIDE, 8, scale=1 / 128, zero_point=0)
        (c,) = file.operator("L2_NORMALIZATION", [c], {"n": unit}, ("L2NormOptions", {}))
    (d,) = file.operator(
        "CONV_2D", [c, constant(16, 1, 1, 8), bias(16)], {"d": spec(1, SIDE, SIDE, 16)}, ("Conv2DOptions", same)
    )
    path.write_bytes(file.build(d))
    return path
