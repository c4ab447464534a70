"""Log settings as clients see them, and what the process then logs."""

from __future__ import annotations

import io

import pytest

from nnhal_hosting.logs import get_logger
from nnhal_service.observability import RequestLog, RuntimeLogSettings
from nnhal_service.observability.log_settings import LogChanges
from nnhal_service.serving import InferenceRequest, ServingError
from nnhal_service.serving.errors import ErrorKind
from nnhal_service.v2.backend import LogSetting, LogSettings
from tests.service.observability.conftest import Serve, infer, taken

START = {
    "log_file": "",
    "log_info": False,
    "log_warning": True,
    "log_error": True,
    "log_verbose_level": 0,
    "log_format": "default",
}


def shown(output: io.StringIO) -> list[str]:
    logger = get_logger(__name__)
    for level in ("debug", "info", "warning", "error", "critical"):
        getattr(logger, level)(level)
    return [line["event"] for line in taken(output)]


def test_settings_are_those_of_the_process(output: io.StringIO) -> None:
    settings: LogSettings = RuntimeLogSettings("warning", "")
    assert settings.update({}) == START
    assert shown(output) == ["warning", "error", "critical"]
    assert RuntimeLogSettings("debug").update({}) == {**START, "log_info": True, "log_verbose_level": 1}
    assert RuntimeLogSettings("error").update({}) == {**START, "log_warning": False}


@pytest.mark.parametrize("level", ["debug", "info", "warning", "error"])
def test_a_level_sets_what_clients_see_and_keeps_the_format(output: io.StringIO, level: str) -> None:
    told: list[LogChanges] = []
    settings = RuntimeLogSettings("info", changed=told.append)
    settings.update({"log_format": "ISO8601"})
    settings.set_level(level)
    assert settings.update({}) == {**RuntimeLogSettings(level).update({}), "log_format": "ISO8601"}
    assert told[1:] == [settings.update({})]
    assert shown(output)[0] == level


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"log_info": True}, ["info", "warning", "error", "critical"]),
        ({"log_warning": False}, ["error", "critical"]),
        ({"log_verbose_level": 1}, ["debug", "warning", "error", "critical"]),
        ({"log_error": False, "log_warning": False}, ["critical"]),
    ],
)
def test_a_change_holds_at_once(output: io.StringIO, changes: dict[str, LogSetting], expected: list[str]) -> None:
    settings = RuntimeLogSettings("warning")
    assert settings.update(changes) == {**START, **changes}
    assert shown(output) == expected


def test_the_format_is_that_of_the_instants(output: io.StringIO) -> None:
    settings, logger = RuntimeLogSettings("warning"), get_logger(__name__)
    lengths = []
    for name in ("default", "ISO8601"):
        settings.update({"log_format": name})
        logger.warning("now")
        lengths.append(len(taken(output)[0]["timestamp"]))
    assert lengths == [len("2026-11-21T20:03:25.829575Z"), len("2026-11-21T20:03:25Z")]


@pytest.mark.parametrize(
    ("key", "value", "kind", "message"),
    [
        ("log_other", True, ErrorKind.INVALID_ARGUMENT, "log setting 'log_other' is unknown, expected one of log_file"),
        ("log_file", "a", ErrorKind.UNSUPPORTED, "log file location can not be updated"),
        ("log_info", 1, ErrorKind.INVALID_ARGUMENT, "log_info is 1, expected true or false"),
        ("log_verbose_level", True, ErrorKind.INVALID_ARGUMENT, "log_verbose_level is True, expected an integer"),
        ("log_verbose_level", -1, ErrorKind.INVALID_ARGUMENT, "expected an integer from 0 to"),
        ("log_verbose_level", 2**40, ErrorKind.INVALID_ARGUMENT, "expected an integer from 0 to"),
        ("log_format", "json", ErrorKind.INVALID_ARGUMENT, "log_format is 'json', expected one of default, ISO8601"),
    ],
)
def test_a_wrong_setting_changes_nothing(
    output: io.StringIO, key: str, value: LogSetting, kind: ErrorKind, message: str
) -> None:
    settings = RuntimeLogSettings("warning")
    with pytest.raises(ServingError, match=message) as got:
        settings.update({"log_warning": False, key: value})
    assert got.value.kind == kind
    assert settings.update({}) == START
    assert shown(output) == ["warning", "error", "critical"]


def test_each_request_is_a_line_at_verbose_levels(serve: Serve, output: io.StringIO) -> None:
    settings = RuntimeLogSettings("warning")
    served = serve([RequestLog(settings)])
    infer(served, "unseen")
    settings.update({"log_verbose_level": 1})
    infer(served, "seen")
    with pytest.raises(ServingError):
        served.infer_and_wait(InferenceRequest({}, id="bad"))
    settings.update({"log_verbose_level": 0})
    infer(served, "unseen")
    ran, failed = taken(output)
    assert (ran["event"], ran["request_id"], ran["model"], ran["version"]) == ("request", "seen", "m", "1")
    assert 0 <= ran["queue_us"] <= ran["request_us"] and 0 < ran["compute_us"] <= ran["request_us"]
    assert (failed["event"], failed["request_id"], failed["reason"]) == ("request failed", "bad", "OTHER")
