from __future__ import annotations

from pathlib import Path

import pytest

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
