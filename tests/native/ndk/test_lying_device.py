"""Executions of NeuralNetworks.h on a device that does wrong on the wire."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from nnhal.endpoint import Endpoint
from nnhal_native.ndk import Compilation, Execution, NeuralNetworksError
from tests.native.ndk.support import WAYS, framework_at, named
from tests.support.foreign_system import ELEMENTS, ForeignSystem, doublings, foreign_system

pytestmark = pytest.mark.sdk


@pytest.fixture(scope="module")
def system(cpu_ref: Endpoint) -> Iterator[ForeignSystem]:
    with foreign_system(cpu_ref) as started, framework_at(started.directory):
        yield started


@pytest.mark.parametrize("way", WAYS)
def test_no_computation_of_the_library_succeeds_with_the_answer_to_another(system: ForeignSystem, way: str) -> None:
    device, result = system.devices["first"], np.zeros(ELEMENTS, np.float32)
    with Compilation(doublings(1), named("first")) as compilation:
        compilation.finish()
        with Execution(compilation) as execution:
            execution.set_reusable(True)
            given = np.zeros(ELEMENTS, np.float32)
            execution.set_input(0, given)
            execution.set_output(0, result)
            WAYS[way](execution, compilation)
            device.fail("dawdles")
            device.fail("answers twice", 1)
            failed = 0
            for number in range(1, 7):
                given[...], result[...] = number, np.nan
                try:  # the compilation names one device, and nothing stands in for it
                    WAYS[way](execution, compilation)
                except NeuralNetworksError:
                    failed += 1
                else:
                    assert result.tolist() == [2 * number] * ELEMENTS
    assert failed <= 2
