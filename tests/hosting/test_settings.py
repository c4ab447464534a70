"""Settings from the environment."""

from __future__ import annotations

import pytest
from annotated_types import Ge, Gt, Le, Lt
from pydantic import BaseModel, ValidationError

from nnhal.errors import NnhalError
from nnhal_dashboard.settings import DashboardSettings
from nnhal_devices.host.settings import DeviceSettings
from nnhal_hosting.settings import describe_invalid
from nnhal_service.settings import ServiceSettings
from nnhal_tools.up.topology import DeviceEntry
from tests.support.plain_words import require_plain


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


NUMBERS = [
    (settings, name)
    for settings in (DeviceSettings, ServiceSettings, DashboardSettings, DeviceEntry)
    for name, field in settings.model_fields.items()
    if field.annotation in (int, float)
]
EXTREMES = ("-1", "2147483648", "9223372036854775808", "1e308", "inf", "nan", "9" * 5000, "x", "-1e400", str(2**80))


@pytest.mark.parametrize(("settings", "name"), NUMBERS)
def test_every_number_has_bounds(settings: type[BaseModel], name: str) -> None:
    kinds = {type(bound) for bound in settings.model_fields[name].metadata}
    assert kinds & {Ge, Gt}
    assert kinds & {Le, Lt}


@pytest.mark.parametrize(("settings", "name"), NUMBERS)
def test_a_number_out_of_its_bounds_is_refused_in_words(settings: type[BaseModel], name: str) -> None:
    given: dict[str, str] = {"driver": "cpu_ref"} if settings is DeviceEntry else {}
    for text in EXTREMES:
        try:
            taken = getattr(settings.model_validate({**given, name: text}), name)
        except ValidationError as error:
            assert describe_invalid(error).startswith(name)
            require_plain(describe_invalid(error), text[:40])
        else:
            assert taken == float(text)
    with pytest.raises(ValidationError):
        settings.model_validate({**given, name: "inf"})


@pytest.mark.parametrize("given", ["[1,", "[" * 50_000, "1" * 5000])
def test_a_variable_that_is_no_json_is_refused_in_words(given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NNHAL_SERVICE_ALLOWED_UIDS", given)
    with pytest.raises(NnhalError, match=r"^NNHAL_SERVICE_ALLOWED_UIDS '.{1,80}: expected JSON") as refusal:
        ServiceSettings()
    assert len(str(refusal.value)) < 300
