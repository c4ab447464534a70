"""The errors that clients get for a failure."""

from __future__ import annotations

import pytest

from nnhal.errors import DeadObjectError, HalError, NnhalError, TransportError
from nnhal.types import ErrorStatus
from nnhal_service.serving import ErrorKind, ServingError
from nnhal_service.serving.errors import serving_error


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (ErrorStatus.DEVICE_UNAVAILABLE, ErrorKind.UNAVAILABLE),
        (ErrorStatus.GENERAL_FAILURE, ErrorKind.INTERNAL),
        (ErrorStatus.OUTPUT_INSUFFICIENT_SIZE, ErrorKind.INTERNAL),
        (ErrorStatus.INVALID_ARGUMENT, ErrorKind.INVALID_ARGUMENT),
        (ErrorStatus.MISSED_DEADLINE_TRANSIENT, ErrorKind.DEADLINE_EXCEEDED),
        (ErrorStatus.MISSED_DEADLINE_PERSISTENT, ErrorKind.DEADLINE_EXCEEDED),
        (ErrorStatus.RESOURCE_EXHAUSTED_TRANSIENT, ErrorKind.RESOURCE_EXHAUSTED),
        (ErrorStatus.RESOURCE_EXHAUSTED_PERSISTENT, ErrorKind.RESOURCE_EXHAUSTED),
    ],
)
def test_a_devices_answer_has_its_kind_and_its_words(status: ErrorStatus, kind: ErrorKind) -> None:
    error = serving_error("m", HalError(status, "operation 0: index 9, expected 0 to 3"))
    assert (error.kind, error.message) == (kind, "model 'm': operation 0: index 9, expected 0 to 3")


@pytest.mark.parametrize(
    "error",
    [
        HalError(ErrorStatus.GENERAL_FAILURE, "cpu_acc at /run/nnhal/cpu_acc/device.sock: no"),
        TransportError("the device at /run/nnhal/cpu_acc: closed"),
        DeadObjectError("/run/nnhal/cpu_acc: gone"),
        OSError(12, "Cannot allocate memory", "/run/nnhal"),
        MemoryError("/run/nnhal"),
    ],
)
def test_paths_are_not_for_clients(error: NnhalError | OSError | MemoryError) -> None:
    message = serving_error("m", error).message
    assert "/run" not in message and "sock" not in message and "model 'm'" in message


def test_names_of_nodes_are() -> None:
    error = HalError(ErrorStatus.INVALID_ARGUMENT, "scale 1/256 of /backbone/conv1/Conv and layer/a")
    assert serving_error("m", error).message == "model 'm': scale 1/256 of /backbone/conv1/Conv and layer/a"


def test_each_request_is_told_with_an_error_of_its_own() -> None:
    error = ServingError(ErrorKind.CANCELLED, "cancelled")
    told = serving_error("m", error)
    assert (told.kind, told.message) == (error.kind, error.message)
    assert told is not error
