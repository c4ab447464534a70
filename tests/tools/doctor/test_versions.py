"""Versions that work together."""

from __future__ import annotations

import pytest

from nnhal_tools.doctor.finding import Status
from nnhal_tools.doctor.versions import (
    Installed,
    check_grpc,
    check_http2,
    check_onnxruntime,
    check_python,
    check_tritonclient,
    check_versions,
    parsed,
)

GOOD = {
    "grpcio": "1.85.1",
    "grpcio-health-checking": "1.81.1",
    "grpcio-reflection": "1.81.1",
    "protobuf": "6.33.6",
    "tritonclient": "2.73.0",
}


def _with(**changes: str | None) -> Installed:
    versions = {**GOOD, **{name.replace("_", "-"): number for name, number in changes.items()}}
    return versions.get


@pytest.mark.parametrize(
    ("changes", "status", "words"),
    [
        ({}, Status.OK, "protobuf 6.33.6"),
        ({"grpcio": "1.60.0"}, Status.FAIL, "grpcio 1.60.0"),
        ({"grpcio_reflection": None}, Status.FAIL, "grpcio-reflection missing"),
        ({"grpcio_health_checking": "1.82.0"}, Status.FAIL, "grpcio-health-checking needs protobuf 7"),
        ({"grpcio_health_checking": "1.82.0", "protobuf": "7.35.0"}, Status.OK, "1.82.0"),
    ],
)
def test_the_grpc_family(changes: dict[str, str | None], status: Status, words: str) -> None:
    finding = check_grpc(_with(**changes))
    assert finding.status is status and words in finding.message


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({}, [Status.OK]),
        ({"tritonclient": None}, []),
        ({"tritonclient": "2.41.0", "protobuf": "7.35.0"}, [Status.WARN]),
        ({"protobuf": "7.35.0"}, [Status.FAIL]),
    ],
)
def test_the_trap_of_tritonclient(changes: dict[str, str | None], status: list[Status]) -> None:
    assert [finding.status for finding in check_tritonclient(_with(**changes))] == status


def test_an_old_python_fails() -> None:
    assert check_python((3, 10)).status is Status.FAIL
    assert check_python((3, 11)).status is Status.OK


def test_onnxruntime_is_asked_for() -> None:
    assert check_onnxruntime(_with(onnxruntime=None)).status is Status.FAIL


def test_this_environment_fails_in_nothing() -> None:
    assert Status.FAIL not in {finding.status for finding in check_versions()}


@pytest.mark.parametrize(
    ("text", "numbers"), [("1.81.1", (1, 81, 1)), ("7.35.0rc1", (7, 35, 0)), ("2.x", (2,)), (None, ()), ("", ())]
)
def test_versions_are_read_by_their_numbers(text: str | None, numbers: tuple[int, ...]) -> None:
    assert parsed(text) == numbers


def test_what_serves_the_grpc_port_is_told() -> None:
    assert check_http2(_with(ngh2="0.3.0")).status == Status.OK
    missing = check_http2(_with())
    assert (missing.status, "grpcio serves" in missing.message) == (Status.WARN, True)
