from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from nnhal_devices.host.settings import DeviceSettings


@pytest.mark.parametrize(
    ("value", "paths"),
    [("", []), ("/a", ["/a"]), ("/a:/b/c:relative", ["/a", "/b/c", "relative"]), ("/a::/b:", ["/a", "/b"])],
)
def test_backend_paths_are_divided_at_colons(monkeypatch: pytest.MonkeyPatch, value: str, paths: list[str]) -> None:
    monkeypatch.setenv("NNHAL_DEVICE_BACKEND_PATHS", value)
    assert DeviceSettings().backend_paths == tuple(map(Path, paths))


def test_what_is_given_overrides_the_environment_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NNHAL_DEVICE_BACKEND_PATHS", "/a:/b")
    assert DeviceSettings(backend_paths=(Path("/c:d"),)).backend_paths == (Path("/c:d"),)


@pytest.mark.parametrize(
    ("value", "options"),
    [("", {}), ("sram=256KiB", {"sram": "256KiB"}), ("a=1,b=x=y,c=", {"a": "1", "b": "x=y", "c": ""})],
)
def test_options_are_divided_at_commas(monkeypatch: pytest.MonkeyPatch, value: str, options: dict[str, str]) -> None:
    monkeypatch.setenv("NNHAL_DEVICE_OPTIONS", value)
    assert DeviceSettings().options == options


def test_options_may_be_a_list() -> None:
    settings = DeviceSettings.model_validate({"options": ["a=1,2", "b=3"]})
    assert settings.options == {"a": "1,2", "b": "3"}


@pytest.mark.parametrize("value", ["sram", "=1", "a=1,b"])
def test_options_are_pairs(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("NNHAL_DEVICE_OPTIONS", value)
    with pytest.raises(ValidationError, match="expected KEY=VALUE"):
        DeviceSettings()
