"""The published performance of a part."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from nnhal_cascade.geometry.box import Shape
from nnhal_cascade.graph.cascader_graph import Activation, Kernel, PartKind
from nnhal_cascade.hardware.accelerators import accelerator
from nnhal_cascade.performance.blocks import prefers_part_kernel
from nnhal_cascade.performance.workload import PartWorkload, workload_of
from tests.support.cascader_parts import one_part
from tests.support.published_cascader.part_performance import PublishedPart, published_output_cycles

FOLDER = os.environ.get("NNHAL_CASCADE", "")
KINDS = {"conv": PartKind.CONVOLUTION, "dw": PartKind.DEPTHWISE}
U55 = ("u55-256", "u55-128", "u55-64", "u55-32")

Sizes = tuple[int, int, int]


def cases() -> list[Any]:
    """The cases that came out of TVM's own objects."""
    if not FOLDER:
        return [pytest.param({}, marks=pytest.mark.skip(reason="NNHAL_CASCADE names no folder of known-good cases"))]
    return list(json.loads((Path(FOLDER) / "known_good.json").read_text())["perf"])


def workload(
    kind: PartKind,
    kernel: Kernel,
    read: Sizes,
    output: Sizes,
    operation: str = "",
    activation: Activation = Activation.NONE,
) -> PartWorkload:
    graph = one_part(kind, (read,), output, kernel=kernel, operation=operation, activation=activation)
    return workload_of(graph, graph.parts[0])


@pytest.mark.parametrize("case", cases(), ids=str)
def test_parts_perform_as_published(case: dict[str, Any]) -> None:
    asked = workload(
        KINDS[case["op"]], Kernel(*case["kernel"], *case["stride"]), tuple(case["ifm"][1:]), tuple(case["ofm"][1:])
    )
    part = PublishedPart(accelerator(case["acc"].removeprefix("ethos-")), asked, tuple(case["pad"]))
    stripe = Shape(*case["stripe"][1:])
    block = part.block(stripe)
    assert prefers_part_kernel(asked) == case["part_kernel"]
    assert len(part.valid_blocks) == case["valid_blocks"]
    assert [1, *block.output] == case["block_out"]
    assert [1, *block.input] == case["block_in"]
    assert (block.compute_cycles, block.output_cycles) == (case["block_compute_cycles"], case["block_output_cycles"])
    for mode, rolling in (("rolling", True), ("recompute", False)):
        found = part.performance(stripe, rolling)
        assert {"cycles": found.cycles, "read": list(found.read), "write": found.written} == case[mode]


@pytest.mark.parametrize(
    ("kind", "kernel", "read", "output", "blocks"),
    [
        (
            PartKind.CONVOLUTION,
            Kernel(14, 14),
            (125, 63, 64),
            (112, 50, 128),
            ((16, 8, 16), (5, 8, 16), (6, 5, 16), (6, 5, 16)),
        ),
        (
            PartKind.CONVOLUTION,
            Kernel(3, 3, 1, 1, 2, 2),
            (62, 94, 32),
            (58, 90, 16),
            ((12, 10, 16), (10, 6, 16), (6, 5, 16), (6, 5, 16)),
        ),
        (
            PartKind.DEPTHWISE,
            Kernel(3, 3, 2, 2),
            (25, 10, 276),
            (13, 5, 276),
            ((14, 6, 16), (10, 6, 16), (8, 5, 16), (8, 5, 16)),
        ),
        (
            PartKind.POOLING,
            Kernel(7, 3, 2, 1),
            (317, 14, 21),
            (156, 12, 21),
            ((10, 12, 16), (10, 6, 16), (9, 6, 16), (9, 6, 16)),
        ),
    ],
)
def test_the_best_block_is_the_published_one(
    kind: PartKind, kernel: Kernel, read: Sizes, output: Sizes, blocks: tuple[Sizes, ...]
) -> None:
    asked = workload(kind, kernel, read, output, "AVERAGE_POOL_2D" if kind is PartKind.POOLING else "")
    found = [PublishedPart(accelerator(name), asked).block(Shape(*output)).output for name in U55]
    assert tuple(found) == blocks


@pytest.mark.parametrize(
    ("kind", "kernel", "read", "output", "cycles"),
    [
        (PartKind.CONVOLUTION, Kernel(3, 3), (18, 18, 96), (16, 16, 96), 167_733),
        (PartKind.CONVOLUTION, Kernel(10, 4, 2, 1), (58, 13, 1), (25, 10, 276), 174_105),
        (PartKind.DEPTHWISE, Kernel(3, 3, 2, 2), (25, 10, 276), (13, 5, 276), 17_590),
        (PartKind.DEPTHWISE, Kernel(4, 9), (28, 81, 42), (25, 73, 42), 173_414),
    ],
)
def test_cycles_are_near_those_measured_on_the_hardware(
    kind: PartKind, kernel: Kernel, read: Sizes, output: Sizes, cycles: int
) -> None:
    part = PublishedPart(accelerator("u55-128"), workload(kind, kernel, read, output))
    assert part.performance(Shape(*output), rolling=True).cycles == pytest.approx(cycles, rel=0.1)


@pytest.mark.parametrize(
    ("kind", "operation", "activation", "element_bytes", "cycles"),
    [
        (PartKind.CONVOLUTION, "CONV_2D", Activation.TABLE, 1, (1, 1, 1, 2)),
        (PartKind.POOLING, "MAX_POOL_2D", Activation.NONE, 1, (0.125, 0.25, 0.5, 1)),
        (PartKind.ELEMENTWISE, "ADD", Activation.NONE, 1, (0.75, 1.5, 3, 6)),
        (PartKind.ELEMENTWISE, "MUL", Activation.NONE, 1, (0.375, 0.75, 1.5, 3)),
        (PartKind.ELEMENTWISE, "MUL", Activation.NONE, 4, (0.75, 0.75, 1.5, 3)),
    ],
)
def test_an_element_of_the_output_takes_the_published_cycles(
    kind: PartKind, operation: str, activation: Activation, element_bytes: int, cycles: tuple[float, ...]
) -> None:
    asked = workload(kind, Kernel(), (8, 8, 16), (8, 8, 16), operation, activation)
    asked = asked._replace(output=asked.output._replace(element_bytes=element_bytes))
    assert tuple(published_output_cycles(accelerator(name), asked) for name in U55) == cycles


def test_a_small_convolution_takes_the_published_cycles() -> None:
    asked = workload(PartKind.CONVOLUTION, Kernel(3, 3), (8, 8, 4), (8, 8, 4))
    part = PublishedPart(accelerator("u55-256"), asked, padding=(1, 1))
    assert part.performance(Shape(8, 8, 4), rolling=True).cycles == 320
