"""Results of the formulas for two networks, batch 1: a check of arithmetic, not of silicon."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from nnhal_mlip.program.program import TensorType
from nnhal_mlip.simulator.report import macs_bound, program_bound
from nnhal_mlip.timing.profile import read_profile
from nnhal_mlip.timing.queues import timeline
from tests.support.mlip_networks import Layer, mobilenet, network_program, resnet50

PROFILE = read_profile()
FP16, INT8 = TensorType.FP16, TensorType.INT8
TILES = (1, 2, 4, 8)


def mega_cycles(layers: list[Layer], element_type: TensorType, tiles: int, *, pinned: bool = False) -> float:
    return timeline(network_program(layers, element_type, tiles, PROFILE, pinned=pinned), PROFILE).total / 1e6


@pytest.mark.parametrize(
    "network, element_type, expected",
    [
        (lambda: resnet50(sums=False), FP16, (17.31, 8.70, 4.68, 2.80)),
        (lambda: resnet50(sums=False), INT8, (4.36, 2.35, 1.41, 1.04)),
        (mobilenet, FP16, (3.01, 1.58, 0.89, 0.58)),
        (mobilenet, INT8, (0.92, 0.50, 0.32, 0.23)),
    ],
)
def test_networks_take_the_cycles_of_the_formulas(
    network: Callable[[], list[Layer]], element_type: TensorType, expected: tuple[float, ...]
) -> None:
    found = [mega_cycles(network(), element_type, tiles) for tiles in TILES]
    assert found == pytest.approx(expected, rel=0.01, abs=0.006)


def test_networks_have_the_products_that_are_known_of_them() -> None:
    for layers, macs, weights in ((resnet50(), 4.089e9, 25.5e6), (mobilenet(), 0.569e9, 4.21e6)):
        assert sum(layer.shape(FP16).macs for layer in layers) == pytest.approx(macs, rel=1e-3)
        assert sum(layer.weights for layer in layers) == pytest.approx(weights, rel=1e-3)


@pytest.mark.parametrize("network", [resnet50, mobilenet])
@pytest.mark.parametrize("element_type", [FP16, INT8])
def test_more_tiles_and_pinned_weights_are_never_slower(
    network: Callable[[], list[Layer]], element_type: TensorType
) -> None:
    plain = [mega_cycles(network(), element_type, tiles) for tiles in range(1, 9)]
    pinned = [mega_cycles(network(), element_type, tiles, pinned=True) for tiles in range(1, 9)]
    assert plain == sorted(plain, reverse=True)
    assert pinned == sorted(pinned, reverse=True)
    assert all(one <= other for one, other in zip(pinned, plain, strict=True))


@pytest.mark.parametrize("network", [resnet50, mobilenet])
def test_int8_is_never_slower_than_fp16(network: Callable[[], list[Layer]]) -> None:
    for tiles in TILES:
        assert mega_cycles(network(), INT8, tiles) <= mega_cycles(network(), FP16, tiles)


@pytest.mark.parametrize("network", [resnet50, mobilenet])
@pytest.mark.parametrize("element_type", [FP16, INT8])
def test_nothing_is_faster_than_its_bounds(network: Callable[[], list[Layer]], element_type: TensorType) -> None:
    for tiles in TILES:
        program = network_program(network(), element_type, tiles, PROFILE)
        assert timeline(program, PROFILE).total >= program_bound(program, PROFILE)


def test_pinned_mobilenet_in_int8_is_not_bound_by_its_weights() -> None:
    assert mega_cycles(mobilenet(), INT8, 8, pinned=True) == pytest.approx(0.12, abs=0.003)


def test_the_bounds_of_products_are_those_of_full_arrays() -> None:
    found = [macs_bound(macs, 8, kind, PROFILE) / 1e6 for macs in (4_089_000_000, 569_000_000) for kind in (FP16, INT8)]
    assert found == pytest.approx([2.00, 0.50, 0.28, 0.07], abs=0.005)
