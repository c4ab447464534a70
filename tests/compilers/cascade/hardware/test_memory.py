"""Systems and their regions."""

from __future__ import annotations

import pytest

from nnhal_cascade.hardware.memory_file import system_for


def test_a_region_is_found_by_its_name() -> None:
    assert system_for("u55-128").region("flash").name == "flash"


def test_an_unknown_region_is_refused_with_the_names_of_the_known() -> None:
    with pytest.raises(ValueError, match="u55-128 has no region 'dram': expected one of sram, flash"):
        system_for("u55-128").region("dram")
