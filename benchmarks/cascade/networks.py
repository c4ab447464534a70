"""The networks that are measured, what others reach on them, and the aims."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Published:
    """A peak that another compiler reaches on a network."""

    compiler: str
    peak: int
    """Bytes, with the network's input and output."""
    remark: str = ""


@dataclass(frozen=True, slots=True)
class MeasuredNetwork:
    """A network with its aims."""

    name: str
    """The file's name without its suffix."""
    peak_aim: int
    """Bytes, without recomputing."""
    published: tuple[Published, ...]


VELA = "Vela 5.2.0"
"""``ethos-u-vela`` 5.2.0, ``--optimise Size`` on u55-128, either core; ``python -m benchmarks.compilers`` runs it."""
TVM = "TVM 0.12.0"
"""The cascader of TVM 0.12.0, which later releases do not have, on u55-128: the smallest point of its Pareto set."""
_SLOW = "stripes on several axes, {} x cycles"

NETWORKS = (
    MeasuredNetwork(
        "mobilenet_v1_1.0_224",
        240_128,
        (
            Published(VELA, 451_584),
            Published(TVM, 405_056),
            Published(TVM, 286_200, _SLOW.format(2.4)),
        ),
    ),
    MeasuredNetwork(
        "mobilenet_v2_1.0_224",
        204_288,
        (
            Published(VELA, 361_984),
            Published(TVM, 302_960),
            Published(TVM, 236_672, _SLOW.format(1.6)),
        ),
    ),
    MeasuredNetwork("mobilenet_v1_0.25_96", 28_032, (Published(VELA, 49_152), Published(TVM, 38_128))),
    MeasuredNetwork("ds_cnn_kws", 8_640, (Published(VELA, 16_000), Published(TVM, 17_424))),
    MeasuredNetwork("two_conv_rfc", 9_504, (Published(VELA, 15_920), Published(TVM, 13_928))),
)
BIG = "mobilenet_v1_1.0_224"
"""The network of the aims that concern one network."""
FAST_ACCELERATOR = "u55-128"
FAST_BUDGET = 280_000
"""Bytes in which MobileNetV1 should run on it …"""
FAST_RATIO = 1.01
"""… in at most so many times the cycles that it needs without cascades."""
CHAIN_PARTS = 1_000
CHAIN_SECONDS = 10.0
PLANNING_MIB = 100.0
"""Peak resident memory of the process that plans MobileNetV1."""
STRAIGHTNESS = 0.01
"""The part of the variance that a line through time against parts may leave."""
