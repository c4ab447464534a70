"""docs/limits.md: each setting that is a limit is there with its default and with a test."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from nnhal_dashboard.settings import DashboardSettings
from nnhal_devices.host.settings import DeviceSettings
from nnhal_hosting.settings import EnvironmentSettings, ProcessSettings
from nnhal_service.settings import ServiceSettings

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs/limits.md").read_text()
ROW = re.compile(r"^\| `([\w…]+)` \| ([\d,.]+) \| [^|]+ \| [^|]+ \| (`tests/[^|]+`) \|$", re.MULTILINE)
NO_LIMITS = {
    "dashboard": {"port"},
    "device": {"workers", "threads", "spin_us"},
    "service": {"http_port", "grpc_port", "metrics_port", "repository_poll_secs", "front_workers"},
    "process": set[str](),
}
"""Numbers that bound nothing."""
SETTINGS: dict[str, type[EnvironmentSettings]] = {
    "dashboard": DashboardSettings,
    "device": DeviceSettings,
    "service": ServiceSettings,
    "process": ProcessSettings,
}


def defaults(kind: str) -> dict[str, float]:
    """The limits of a kind of process by the names of their settings; what all have is of the kind "process"."""
    settings = SETTINGS[kind]
    prefix = settings.model_config.get("env_prefix") or "…_"
    inherited = set() if kind == "process" else set(ProcessSettings.model_fields)
    return {
        f"{prefix}{name}".upper(): float(field.default)
        for name, field in settings.model_fields.items()
        if field.annotation in (int, float) and name not in inherited | NO_LIMITS[kind]
    }


def test_the_page_has_every_limit_with_its_default() -> None:
    expected = {name: value for kind in SETTINGS for name, value in defaults(kind).items()}
    assert {name: float(value.replace(",", "")) for name, value, _ in ROW.findall(PAGE)} == expected


def test_every_row_is_read() -> None:
    assert len(ROW.findall(PAGE)) == PAGE.count("\n| `")


@pytest.mark.parametrize("kind", SETTINGS)
def test_what_is_no_limit_is_a_setting(kind: str) -> None:
    assert NO_LIMITS[kind] <= set(SETTINGS[kind].model_fields)


@pytest.mark.parametrize("page", ["limits"])
def test_the_tests_that_a_page_names_are_there(page: str) -> None:
    named = set(re.findall(r"`(tests/[\w/]+\.py)`", (ROOT / f"docs/{page}.md").read_text()))
    assert len(named) > 30
    assert [name for name in sorted(named) if not (ROOT / name).is_file()] == []
