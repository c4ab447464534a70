"""Conformance tests on devices that know the HAL and nothing of nnhal's additions to it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nnhal.errors import general_failure
from nnhal.remote import RemoteDevice
from nnhal.remote.backend import ModelAssessment
from nnhal.types import Model
from nnhal_tools.cases.case import ExecutionMode, MemoryChoice, Verdict
from nnhal_tools.cases.runner import CaseRunner
from nnhal_tools.cases.vectors import parse_vector
from tests.support.processes import device_process

EXAMPLES = Path(__file__).parents[2] / "examples/vectors.jsonl"


class HalOnly(RemoteDevice):
    """A device in another language, say, whose process has the services of the HAL only."""

    def assess_model(self, model: Model, graphs: bytes | None = None) -> ModelAssessment:
        general_failure("the method is not implemented")


@pytest.mark.slow
def test_a_device_that_gives_no_reasons_declines_all_the_same(short_path: Path) -> None:
    vector = parse_vector(json.loads(EXAMPLES.read_text().splitlines()[0]))
    with device_process("null", short_path) as (_, endpoint), HalOnly(endpoint, "test") as device:
        (result,) = CaseRunner(device, [(ExecutionMode.SYNC, MemoryChoice.ASHMEM)]).run(vector)
    assert (result.verdict, result.reason, result.failure) == (Verdict.DECLINED, "the device does not say why", "")
