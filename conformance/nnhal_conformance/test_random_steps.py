"""Random steps as a test of the device that the fixture ``nnhal_device`` gives."""

from __future__ import annotations

import pytest

from nnhal.endpoint import Endpoint
from nnhal_conformance.plugin import SECONDS


def test_random_steps(nnhal_device: Endpoint, pytestconfig: pytest.Config) -> None:
    """Take random steps. They are skipped without Hypothesis, or if the device supports no small model."""
    pytest.importorskip("hypothesis", reason="Hypothesis is missing, which draws the steps: install nnhal[tools]")
    from nnhal_conformance.random_steps.device import AskedDevice
    from nnhal_conformance.random_steps.running import walk
    from nnhal_conformance.rule import NotOfferedError

    try:
        with AskedDevice(lambda: nnhal_device, SECONDS) as device:
            done = walk(device, pytestconfig.getoption("--nnhal-steps"))
    except NotOfferedError as error:
        pytest.skip(str(error))
    assert not done.broken, f"{done.broken}\n{done.script}"
