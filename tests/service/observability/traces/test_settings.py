"""Trace settings as clients see them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from nnhal_service.observability import Tracer
from nnhal_service.observability.traces.settings import DEFAULTS
from nnhal_service.serving.errors import ErrorKind, ServingError
from nnhal_service.v2.backend import TraceSettings

START = {**DEFAULTS, "trace_file": ("trace.json",), "trace_rate": ("10",)}


@pytest.fixture
def settings(tmp_path: Path) -> Iterator[TraceSettings]:
    tracer = Tracer(lambda name: name == "m", tmp_path, {"trace_rate": ("10",)})
    yield tracer
    tracer.close()


def test_settings_are_told_without_a_change(settings: TraceSettings) -> None:
    assert settings.update("", {}) == START
    assert settings.update("m", {}) == START


def test_a_model_has_the_settings_of_all_but_for_its_own(settings: TraceSettings) -> None:
    settings.update("m", {"trace_rate": ("5",)})
    settings.update("", {"trace_level": ("TIMESTAMPS",), "trace_rate": ("20",)})
    assert settings.update("m", {}) == {**START, "trace_level": ("TIMESTAMPS",), "trace_rate": ("5",)}
    assert settings.update("", {}) == {**START, "trace_level": ("TIMESTAMPS",), "trace_rate": ("20",)}


def test_a_setting_without_values_is_put_back(settings: TraceSettings) -> None:
    settings.update("", {"trace_rate": ("20",), "trace_count": ("3",)})
    settings.update("m", {"trace_rate": ("5",)})
    assert settings.update("m", {"trace_rate": ()}) == {**START, "trace_rate": ("20",), "trace_count": ("3",)}
    assert settings.update("", {"trace_rate": (), "trace_count": ()}) == START


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"trace_other": ("a",)}, "trace setting 'trace_other' is unknown, expected one of trace_file, trace_level"),
        ({"trace_level": ("OFF", "TENSORS")}, "expected OFF, or TIMESTAMPS and TENSORS"),
        ({"trace_level": ("MAX",)}, r"trace_level is \['MAX'\]"),
        ({"trace_rate": ("0",)}, "trace_rate is '0', expected an integer from 1 to"),
        ({"trace_rate": ("1", "2")}, "trace_rate has 2 values, expected one"),
        ({"trace_count": ("-2",)}, "expected an integer from -1 to"),
        ({"log_frequency": ("²",)}, "expected an integer from 0 to"),
        ({"log_frequency": ("9" * 5000,)}, "expected an integer from 0 to"),
        ({"trace_mode": ("opentelemetry",)}, "trace_mode is 'opentelemetry', expected one of triton, chrome"),
        ({"trace_file": ("/etc/passwd",)}, "trace_file is '/etc/passwd', expected a plain file name"),
        ({"trace_file": ("../a",)}, "expected a plain file name"),
        ({"trace_file": (".hidden",)}, "expected a plain file name"),
        ({"trace_file": ("",)}, "expected a plain file name"),
        ({"trace_file": ("a" * 129,)}, "expected a plain file name"),
        ({"trace_file": ("a\0b",)}, "expected a plain file name"),
    ],
)
def test_a_wrong_setting_changes_nothing(
    settings: TraceSettings, changes: Mapping[str, Sequence[str]], message: str
) -> None:
    with pytest.raises(ServingError, match=message) as got:
        settings.update("", {"trace_count": ("7",), **changes})
    assert got.value.kind == ErrorKind.INVALID_ARGUMENT
    assert len(got.value.message) < 300
    assert settings.update("", {}) == START


def test_an_unknown_model_has_no_settings(settings: TraceSettings) -> None:
    with pytest.raises(ServingError, match="unknown model: 'other'") as got:
        settings.update("other", {})
    assert got.value.kind == ErrorKind.NOT_FOUND


def test_without_a_directory_there_are_no_files() -> None:
    tracer = Tracer(lambda _: True)
    assert tracer.update("", {}) == DEFAULTS
    with pytest.raises(ServingError, match="started without a directory") as got:
        tracer.update("", {"trace_file": ("trace.json",)})
    assert got.value.kind == ErrorKind.UNSUPPORTED
    tracer.close()


def test_what_the_operator_says_is_checked_too(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="nowhere: expected a directory"):
        Tracer(lambda _: True, tmp_path / "nowhere")
    with pytest.raises(ServingError, match="expected a plain file name"):
        Tracer(lambda _: True, tmp_path, {"trace_file": ("a/b",)})
