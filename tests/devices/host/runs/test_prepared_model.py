from __future__ import annotations

from dataclasses import replace

import pytest

from nnhal.types import MAX_LOOP_TIMEOUT_NS, DataLocation, ErrorStatus, ExecutionConfig, RequestArgument
from nnhal_devices.cpu_ref.driver import CpuRef
from nnhal_devices.driver import DriverOptions
from nnhal_devices.host.runs.prepared_model import PreparedModel
from nnhal_devices.host.sessions.hosted_device import HostedDevice, Preparation
from nnhal_devices.host.sessions.models import ValidModel
from nnhal_devices.host.settings import DeviceSettings
from tests.support.additions import addition_in_ashmem, addition_model
from tests.support.device_trials import Nobody
from tests.support.refusals import INVALID, refusal

PLAIN = ExecutionConfig()


@pytest.fixture
def prepared() -> PreparedModel:
    model = ValidModel.of(addition_model())
    return HostedDevice(CpuRef(DriverOptions()), DeviceSettings()).launch(model, Preparation(), Nobody())()


@pytest.mark.contract("RQ-12")
def test_a_token_that_names_no_buffer_is_refused(prepared: PreparedModel) -> None:
    request = addition_in_ashmem().request
    request = replace(
        request, inputs=(RequestArgument(DataLocation(1)), request.inputs[1]), pools=(*request.pools, 4711)
    )
    refusal(lambda: prepared.bind(request, PLAIN), INVALID, "device buffer 4711 does not exist")


@pytest.mark.contract("RQ-13")
@pytest.mark.parametrize("timeout", [-2, MAX_LOOP_TIMEOUT_NS + 1, -(2**63)])
def test_a_loop_timeout_is_at_most_15_seconds(prepared: PreparedModel, timeout: int) -> None:
    config = ExecutionConfig(loop_timeout_duration_ns=timeout)
    words = f"loop timeout {timeout} ns, expected -1 to 15000000000"
    refusal(lambda: prepared.bind(addition_in_ashmem().request, config), INVALID, words)


@pytest.mark.contract("RQ-13", "QS-09")
def test_a_deadline_that_has_passed_is_missed_for_ever_and_one_below_none_is_invalid(prepared: PreparedModel) -> None:
    bound = prepared.bind(addition_in_ashmem().request, PLAIN)
    refusal(lambda: bound.run(-2), INVALID, "deadline -2 ns, expected -1 or more")
    refusal(lambda: bound.run(0), ErrorStatus.MISSED_DEADLINE_PERSISTENT, "had passed before the work began")
    assert prepared.scheduler.ended == 0


@pytest.mark.contract("QS-06", "QS-08", "QS-10")
@pytest.mark.parametrize("deadline", [-1, 2**63 - 1])
def test_a_run_in_time_computes_what_it_should_and_frees_its_worker(prepared: PreparedModel, deadline: int) -> None:
    addition = addition_in_ashmem()
    bound = prepared.bind(addition.request, PLAIN)
    refusal(lambda: bound.run(0), ErrorStatus.MISSED_DEADLINE_PERSISTENT)
    for first in (1, 2):
        addition.check(lambda: bound.run(deadline), first, 10)
    assert prepared.scheduler.ended == 2
