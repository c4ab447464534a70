from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from nnhal_service.serving.errors import ErrorKind, ServingError
from nnhal_service.v2.backend import LogSetting
from nnhal_service.v2.settings import LOG_DEFAULTS, TRACE_DEFAULTS, StoredLogSettings, StoredTraceSettings

Told = list[tuple[str, Mapping[str, Sequence[str]]]]


@pytest.fixture
def told() -> Told:
    """What the listener has heard."""
    return []


@pytest.fixture
def trace(told: Told) -> StoredTraceSettings:
    """Settings of a server with one model."""
    return StoredTraceSettings(lambda name: name == "m", lambda *change: told.append(change), {"trace_rate": ("10",)})


def test_trace_settings_are_told_without_a_change(trace: StoredTraceSettings, told: Told) -> None:
    assert trace.update("", {}) == {**TRACE_DEFAULTS, "trace_rate": ("10",)}
    assert told == []


def test_a_model_has_the_settings_of_all_but_for_its_own(trace: StoredTraceSettings, told: Told) -> None:
    trace.update("m", {"trace_rate": ("5",)})
    trace.update("", {"trace_level": ("TIMESTAMPS",), "trace_rate": ("20",)})
    expected = {**TRACE_DEFAULTS, "trace_level": ("TIMESTAMPS",), "trace_rate": ("5",)}
    assert trace.update("m", {}) == expected
    assert [name for name, _ in told] == ["m", ""]


def test_a_setting_without_values_goes_back(trace: StoredTraceSettings) -> None:
    trace.update("", {"trace_rate": ("20",)})
    trace.update("m", {"trace_rate": ("5",)})
    assert trace.update("m", {"trace_rate": ()})["trace_rate"] == ("20",)
    assert trace.update("", {"trace_rate": ()})["trace_rate"] == ("10",)


@pytest.mark.parametrize(
    ("changes", "kind", "message"),
    [
        ({"trace_mode": ("a",)}, ErrorKind.INVALID_ARGUMENT, "trace setting 'trace_mode' is unknown"),
        ({"trace_file": ("/etc/a",)}, ErrorKind.UNSUPPORTED, "trace file location can not be updated"),
        ({"trace_level": ("OFF", "TENSORS")}, ErrorKind.INVALID_ARGUMENT, "expected OFF, or TIMESTAMPS and TENSORS"),
        ({"trace_level": ("MAX",)}, ErrorKind.INVALID_ARGUMENT, r"trace_level is \['MAX'\]"),
        ({"trace_rate": ("0",)}, ErrorKind.INVALID_ARGUMENT, "expected an integer from 1 to"),
        ({"trace_rate": ("1", "2")}, ErrorKind.INVALID_ARGUMENT, "expected an integer from 1 to"),
        ({"trace_count": ("-2",)}, ErrorKind.INVALID_ARGUMENT, "expected an integer from -1 to"),
        ({"log_frequency": ("²",)}, ErrorKind.INVALID_ARGUMENT, "expected an integer from 0 to"),
        ({"log_frequency": ("9" * 5000,)}, ErrorKind.INVALID_ARGUMENT, "expected an integer from 0 to"),
    ],
)
def test_a_wrong_trace_setting_changes_nothing(
    trace: StoredTraceSettings, told: Told, changes: dict[str, Sequence[str]], kind: ErrorKind, message: str
) -> None:
    before = trace.update("", {})
    with pytest.raises(ServingError, match=message) as got:
        trace.update("", {"trace_count": ("7",), **changes})
    assert got.value.kind == kind
    assert trace.update("", {}) == before
    assert told == []


def test_an_unknown_model_has_no_settings(trace: StoredTraceSettings) -> None:
    with pytest.raises(ServingError, match="unknown model: 'other'") as got:
        trace.update("other", {})
    assert got.value.kind == ErrorKind.NOT_FOUND


def test_log_settings_are_changed_and_told() -> None:
    heard: list[Mapping[str, LogSetting]] = []
    log = StoredLogSettings(heard.append, {"log_file": "a.log"})
    assert log.update({}) == {**LOG_DEFAULTS, "log_file": "a.log"}
    assert heard == []
    changes: dict[str, LogSetting] = {"log_info": False, "log_verbose_level": 3, "log_format": "ISO8601"}
    expected = {**LOG_DEFAULTS, "log_file": "a.log", **changes}
    assert log.update(changes) == expected
    assert heard == [expected]


@pytest.mark.parametrize(
    ("key", "value", "kind", "message"),
    [
        ("log_other", True, ErrorKind.INVALID_ARGUMENT, "log setting 'log_other' is unknown"),
        ("log_file", "a", ErrorKind.UNSUPPORTED, "log file location can not be updated"),
        ("log_info", 1, ErrorKind.INVALID_ARGUMENT, "log_info is 1, expected true or false"),
        ("log_verbose_level", True, ErrorKind.INVALID_ARGUMENT, "log_verbose_level is True, expected an integer"),
        ("log_verbose_level", -1, ErrorKind.INVALID_ARGUMENT, "expected an integer from 0 on"),
        ("log_format", "json", ErrorKind.INVALID_ARGUMENT, "log_format is 'json', expected one of default, ISO8601"),
    ],
)
def test_a_wrong_log_setting_changes_nothing(key: str, value: LogSetting, kind: ErrorKind, message: str) -> None:
    heard: list[Mapping[str, LogSetting]] = []
    log = StoredLogSettings(heard.append)
    with pytest.raises(ServingError, match=message) as got:
        log.update({"log_warning": False, key: value})
    assert got.value.kind == kind
    assert log.update({}) == LOG_DEFAULTS
    assert heard == []
