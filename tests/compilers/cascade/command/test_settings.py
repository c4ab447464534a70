"""Changes to a system on the command line."""

from __future__ import annotations

import pytest

from nnhal_cascade.command.settings import changed
from tests.support.cascades import SYSTEM


def test_without_settings_the_system_is_the_same() -> None:
    assert changed(SYSTEM, []) is SYSTEM


def test_settings_change_values_of_the_system_and_of_regions() -> None:
    settings = ["clock_hz=400_000_000", "sram.size=256KiB", "flash.bandwidth=0.5", 'flash.holds=["constants"]']
    found = changed(SYSTEM, settings)
    assert (found.name, found.accelerator, found.clock_hz) == (SYSTEM.name, SYSTEM.accelerator, 400_000_000)
    assert (found.working.size, found.constants.bandwidth) == (262_144, 0.5)
    assert found.working.bandwidth == SYSTEM.working.bandwidth


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("sram.size", "'sram.size': expected KEY=VALUE"),
        ("dram.size=1MiB", "got region 'dram', expected one of sram, flash"),
        ("sram.colour=1", "colour is an unknown key"),
        ("sram.size=0", "size is 0, expected"),
        ("sram.bandwidth=fast", "bandwidth is 'fast', expected bytes a cycle"),
        ("clock_hz=-1", "clock_hz is -1, expected"),
    ],
)
def test_a_wrong_setting_is_refused_in_a_sentence(setting: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        changed(SYSTEM, [setting])
