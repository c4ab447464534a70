from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from nnhal.operations.operand_types import I32, Q8A
from nnhal.resolved import ResolvedModel
from nnhal.types import Operand, OperationType
from nnhal_devices.backend import OptimizationViews
from nnhal_devices.driver import DriverOptions
from nnhal_devices.ethos_u.driver import EthosU
from tests.support.ethos_u import is_taken, needs_networks, network
from tests.support.models import Recipe
from tests.support.npu import SAME

SMALL, WIDE = (1, 4, 4, 16), (1, 64, 64, 16)
QUANTIZATION = (0.5, 128)
_BOARD = """
accelerator = "u55-128"
clock_hz = 500_000_000
region = [
    { name = "sram", size = "256KiB", bandwidth = 8, read_latency = 32, write_latency = 32, burst = 32, holds = [
        "activations",
    ] },
    { name = "flash", size = "4KiB", bandwidth = 1, read_latency = 64, write_latency = 0, burst = 128, holds = [
        "constants",
    ] },
]
"""


class Network:
    """Convolutions and other operations on images that keep their dimensions."""

    def __init__(self) -> None:
        self.recipe = Recipe()
        self._weights = np.random.default_rng(5)

    def image(self, dimensions: tuple[int, ...]) -> int:
        return self.recipe.input(Q8A, dimensions, *QUANTIZATION)

    def convolved(self, image: int, side: int = 3) -> int:
        recipe = self.recipe
        inputs = [
            image,
            recipe.constant(Q8A, self._weights.integers(0, 256, (16, side, side, 16)), 0.25, 128),
            recipe.constant(I32, np.zeros(16), 0.125),
            *recipe.integers(SAME, 1, 1, 0),
        ]
        return recipe.operation(OperationType.CONV_2D, inputs, Operand(Q8A, (), *QUANTIZATION))

    def clamped(self, image: int) -> int:
        return self.recipe.operation(OperationType.RELU, [image], Operand(Q8A, (), *QUANTIZATION))

    def build(self, *outputs: int) -> ResolvedModel:
        model = self.recipe.build(*outputs)
        assert is_taken(model)
        return model


def optimized(model: ResolvedModel, sram: str) -> OptimizationViews:
    return EthosU(DriverOptions(extra={"sram": sram})).backend.optimize(model)


def test_a_network_that_fits_is_compiled_as_one() -> None:
    given = Network()
    views = optimized(given.build(given.clamped(given.convolved(given.convolved(given.image(SMALL))))), "4KiB")
    (substitution,) = views.substitutions
    assert substitution.operations == (0, 1, 2)
    assert substitution.replacement.startswith("compiled: 3 operations, ")
    assert "bytes of SRAM" in substitution.replacement
    assert f" {substitution.working_bytes} bytes of SRAM" in substitution.replacement
    assert not views.failed


def test_a_part_that_does_not_fit_alone_fails_with_the_least_size() -> None:
    given = Network()
    small, wide = given.image(SMALL), given.image(WIDE)
    model = given.build(given.clamped(given.convolved(small)), given.clamped(given.convolved(wide)))
    views = optimized(model, "16KiB")
    assert [each.operations for each in views.substitutions] == [(0, 1)]
    (failure,) = views.failed
    assert failure.operations == (2, 3)
    assert failure.reason.startswith("operation 2 (CONV_2D): the least found is ")
    assert re.search(
        r" bytes, with plans of up to 1 parts; bound [\d,]+ bytes, there are 16,384 of SRAM$", failure.reason
    )


def test_operations_after_one_that_failed_are_a_group_of_their_own() -> None:
    given = Network()
    image = given.image(WIDE)
    recipe = given.recipe
    begin, size = recipe.constant(I32, [0, 0, 0, 0]), recipe.constant(I32, [1, 4, 4, 16])
    part = recipe.operation(OperationType.SLICE, [given.convolved(image), begin, size], Operand(Q8A, (), *QUANTIZATION))
    views = optimized(given.build(given.convolved(given.convolved(part))), "16KiB")
    assert [each.operations for each in views.failed] == [(0,), (1,)]
    assert [each.operations for each in views.substitutions] == [(2, 3)]


def test_the_part_of_most_constants_fails_if_they_do_not_fit_at_rest(tmp_path: Path) -> None:
    given, board = Network(), tmp_path / "board.toml"
    board.write_text(_BOARD)
    convolved = given.convolved(given.convolved(given.image(SMALL)), side=5)
    views = EthosU(DriverOptions(extra={"memory": str(board)})).backend.optimize(given.build(convolved))
    assert [each.operations for each in views.substitutions] == [(0,)]
    assert [(each.operations, each.reason) for each in views.failed] == [
        ((1,), "operation 1 (CONV_2D): the constants take 10,288 bytes, flash has 4,096")
    ]


@needs_networks
def test_cascades_are_named() -> None:
    (substitution,) = optimized(network("mobilenet_v1_0.25_96"), "36KiB").substitutions
    assert len(substitution.operations) == 31
    assert re.search(r"SRAM, 0\.\d+ Mcycles, cascades of \d+(\+\d+)*$", substitution.replacement)
    given = Network()
    (substitution,) = optimized(given.build(given.convolved(given.image(SMALL))), "4KiB").substitutions
    assert substitution.replacement.endswith(", no cascades")
