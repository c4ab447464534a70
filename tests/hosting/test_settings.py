"""Settings from the environment."""

from __future__ import annotations

import pytest

from nnhal_dashboard.settings import DashboardSettings
from nnhal_devices.host.settings import DeviceSettings
from nnhal_service.settings import ServiceSettings


@pytest.mark.parametrize(
    ("settings", "prefix"),
    [(DeviceSettings, "DEVICE"), (ServiceSettings, "SERVICE"), (DashboardSettings, "DASHBOARD")],
)
def test_an_empty_variable_counts_as_none(
    settings: type[DeviceSettings | ServiceSettings | DashboardSettings], prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    variables = [f"NNHAL_{prefix}_{name.upper()}" for name in settings.model_fields]
    for variable in variables:
        monkeypatch.delenv(variable, raising=False)
    without = settings()
    for variable in variables:
        monkeypatch.setenv(variable, "")
    assert settings() == without
