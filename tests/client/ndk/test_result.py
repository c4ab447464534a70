from __future__ import annotations

import pytest

from nnhal.errors import DeadObjectError, HalError, TransportError
from nnhal.types import ErrorStatus
from nnhal_client.ndk import NeuralNetworksError, ResultCode


@pytest.mark.contract("FB-17")
@pytest.mark.parametrize(
    ("status", "code"),
    [
        (ErrorStatus.NONE, ResultCode.NO_ERROR),
        (ErrorStatus.DEVICE_UNAVAILABLE, ResultCode.UNAVAILABLE_DEVICE),
        (ErrorStatus.GENERAL_FAILURE, ResultCode.OP_FAILED),
        (ErrorStatus.OUTPUT_INSUFFICIENT_SIZE, ResultCode.OUTPUT_INSUFFICIENT_SIZE),
        (ErrorStatus.INVALID_ARGUMENT, ResultCode.BAD_DATA),
        (ErrorStatus.MISSED_DEADLINE_TRANSIENT, ResultCode.MISSED_DEADLINE_TRANSIENT),
        (ErrorStatus.MISSED_DEADLINE_PERSISTENT, ResultCode.MISSED_DEADLINE_PERSISTENT),
        (ErrorStatus.RESOURCE_EXHAUSTED_TRANSIENT, ResultCode.RESOURCE_EXHAUSTED_TRANSIENT),
        (ErrorStatus.RESOURCE_EXHAUSTED_PERSISTENT, ResultCode.RESOURCE_EXHAUSTED_PERSISTENT),
    ],
)
def test_a_status_becomes_a_result_code(status: ErrorStatus, code: ResultCode) -> None:
    assert ResultCode.from_status(status) == code
    assert NeuralNetworksError.from_error(HalError(status, "why")).code == code


def test_every_status_has_a_code() -> None:
    assert {ResultCode.from_status(status) for status in ErrorStatus} >= {ResultCode.NO_ERROR, ResultCode.BAD_DATA}


def test_failures_between_processes_have_codes_too() -> None:
    assert NeuralNetworksError.from_error(DeadObjectError("gone")).code == ResultCode.DEAD_OBJECT
    assert NeuralNetworksError.from_error(TransportError("nonsense")).code == ResultCode.OP_FAILED
    assert str(NeuralNetworksError.from_error(DeadObjectError("gone"))) == "DEAD_OBJECT: gone"
