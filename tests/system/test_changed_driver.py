"""A driver that was changed and restarted with the same version is asked about loaded models again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from nnhal.endpoint import Endpoint
from nnhal_client import Binding, Model
from tests.support.foreign_system import WIRED, ForeignSystem, doublings, foreign_system
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow
NAME = WIRED[0]
REFUSAL = {"code": "CHANGED", "got": "an addition", "allowed": "none any more"}
TAKES_ONE: dict[str, Any] = {"operations": [{"supported": True}, REFUSAL], "operationNs": [1.0, 0.0]}
TAKES_BOTH: dict[str, Any] = {}


@pytest.fixture(scope="module")
def system(cpu_ref: Endpoint) -> Iterator[ForeignSystem]:
    with foreign_system(cpu_ref, (NAME,)) as started:
        yield started


def restart(system: ForeignSystem, answer: dict[str, Any]) -> None:
    """Restart the device with a driver that answers otherwise; nothing runs, so that it is not asked before."""
    device = system.devices[NAME]
    device.kill()
    device.start()
    if answer:
        device.change("AssessModel", **answer)


def placed(model: Model, binding: Binding) -> list[str]:
    """Run right, and return the devices of the operations in the plan that is then in force."""
    binding.inputs["input0"][...] = 3
    binding.run()
    assert binding.outputs["output0"].tolist() == [12] * 4
    return [operation.device for operation in model.explain().operations]


def test_a_loaded_model_follows_what_a_changed_driver_takes_and_says(system: ForeignSystem) -> None:
    system.devices[NAME].change("AssessModel", **TAKES_ONE)
    with system.connect() as framework:
        model = framework.load_model(doublings(2))
        with model.bind() as binding:
            assert placed(model, binding) == [NAME, "cpu_ref"]
            restart(system, TAKES_ONE)
            wait_until(lambda: placed(model, binding) == [NAME, "cpu_ref"], "the same driver has its step again")
            restart(system, TAKES_BOTH)
            wait_until(lambda: placed(model, binding) == [NAME, NAME], "the driver takes more")
            restart(system, TAKES_ONE)
            wait_until(lambda: placed(model, binding) == [NAME, "cpu_ref"], "the driver takes less")
            (refusal,) = model.explain().operations[1].refusals.values()
            assert refusal == "CHANGED: got an addition, allowed none any more"
    assert "answers otherwise than before its restart" in system.framework.said()
