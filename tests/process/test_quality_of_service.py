"""Deadlines of preparations and of loops, and preparations that are cancelled."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nnhal.clock import now_ns
from nnhal.endpoint import Endpoint
from nnhal.errors import HalError
from nnhal.remote import RemoteDevice
from nnhal.types import MAX_LOOP_TIMEOUT_NS, ErrorStatus, OperandType
from nnhal.v1 import device_pb2
from nnhal_conformance.session import DeviceSession
from tests.support.additions import addition_model
from tests.support.caching import CachingDevice, broadcast_sum, held_under
from tests.support.calls import NO_TOKEN, session_with
from tests.support.gates import PATIENT, Gate, gate_model
from tests.support.waiting import wait_until

TRANSIENT, PERSISTENT = ErrorStatus.MISSED_DEADLINE_TRANSIENT, ErrorStatus.MISSED_DEADLINE_PERSISTENT
CANCELLED_OPERATIONS = 1500


@pytest.mark.contract("QS-02", "QS-09")
def test_a_deadline_that_has_passed_is_missed_persistently(wire: DeviceSession, device: RemoteDevice) -> None:
    for deadline in (0, now_ns() - 1):
        ended = CachingDevice(wire).prepare(addition_model(), deadline_ns=deadline)
        assert (ended.launched, ended.status, ended.prepared_model) == (True, PERSISTENT, 0)
    prepared, gate = device.prepare_model(gate_model()), Gate()
    with pytest.raises(HalError) as missed:
        prepared.execute(gate.request, deadline_ns=0)
    assert missed.value.status == PERSISTENT


@pytest.mark.contract("QS-09")
def test_a_loop_that_takes_too_long_is_missed_transiently(device: RemoteDevice) -> None:
    prepared, gate, ahead = device.prepare_model(gate_model()), Gate(), 5_000_000
    status = PERSISTENT
    while status == PERSISTENT and ahead < 2 * MAX_LOOP_TIMEOUT_NS:  # until the call arrives before its deadline
        with pytest.raises(HalError) as caught:
            prepared.execute(gate.request, PATIENT, now_ns() + ahead)
        status, ahead = caught.value.status, 2 * ahead
    assert status == TRANSIENT
    gate.open()
    prepared.execute(gate.request, PATIENT)


@pytest.mark.parametrize("driver", ["cpu_ref", "cpu_acc"])
def test_a_cancelled_preparation_leaves_nothing_behind(
    request: pytest.FixtureRequest, driver: str, tmp_path: Path
) -> None:
    endpoint: Endpoint = request.getfixturevalue(driver)
    model = addition_model(operations=CANCELLED_OPERATIONS)
    with session_with(endpoint) as wire, RemoteDevice(endpoint, "observer") as observer:
        device = CachingDevice(wire)
        before = observer.usage().prepared_models
        cache = device.entry(tmp_path / "entry").create()
        numbers = [[wire.link.issue(file) for file in files] for files in (cache.model, cache.data)]
        files = [[device_pb2.CacheFile(descriptor_id=number) for number in each] for each in numbers]
        message = device_pb2.PrepareModelRequest(
            model=wire.model(model), model_cache=files[0], data_cache=files[1], token=NO_TOKEN
        )
        events: Any = wire.device.PrepareModel(message, metadata=wire.metadata)
        assert next(events).preparation.WhichOneof("event") == "launched"
        events.cancel()
        wire.link.drop(*(number for each in numbers for number in each))
        wait_until(lambda: not held_under(tmp_path, observer.pid), "the preparation, which holds its files, has ended")
        assert observer.usage().prepared_models == before
        sample = broadcast_sum(OperandType.TENSOR_FLOAT32)
        device.check(device.prepare(sample.model), sample)
