"""The options of ort_ep."""

from __future__ import annotations

import pytest

from nnhal_devices.driver import DriverOptions
from nnhal_devices.ort_ep.driver import OrtEp

LIBRARY = {"library": "/nowhere/libnpu.so"}


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, "ort_ep needs the option library"),
        ({**LIBRARY, "unknown": "1"}, "ort_ep has no option 'unknown'"),
        ({**LIBRARY, "device": "-1"}, "option device: got '-1', expected the number of one of the provider's devices"),
        ({**LIBRARY, "provider_options": "threads"}, "option provider_options: got 'threads', expected key=value"),
        (LIBRARY, r"library /nowhere/libnpu\.so: No such file"),
    ],
)
def test_a_driver_without_a_provider_says_what_is_wrong(given: dict[str, str], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        OrtEp(DriverOptions(extra=given))
