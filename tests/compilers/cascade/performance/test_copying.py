"""Copies between memories."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from math import prod
from pathlib import Path

import pytest

from nnhal_cascade.hardware.memory_file import system_for
from nnhal_cascade.performance.copying import copy_cycles

FOLDER = os.environ.get("NNHAL_CASCADE", "")


def test_the_slower_side_decides_and_reading_waits() -> None:
    system = system_for("u65-256-high-end")
    assert copy_cycles(system, "dram", "sram", 1500) == 400 + 500
    assert copy_cycles(system, "sram", "dram", 1500) == 400
    assert copy_cycles(system, "sram", "dram", 1501) == 401


def test_no_bytes_take_no_cycles() -> None:
    assert copy_cycles(system_for("u55-128"), "flash", "sram", 0) == 0


def test_an_unknown_region_is_refused() -> None:
    with pytest.raises(ValueError, match="has no region 'dram'"):
        copy_cycles(system_for("u55-128"), "dram", "sram", 1)


@pytest.mark.skipif(not FOLDER, reason="NNHAL_CASCADE names no folder of known-good cases")
def test_bytes_are_divided_by_the_bandwidth_that_the_published_hints_multiply_by() -> None:
    for case in json.loads((Path(FOLDER) / "known_good.json").read_text())["copy_cycles"]:
        default = system_for("u55-128")
        flash = replace(default.region("flash"), bandwidth=case["flash_bw"], read_latency=0)
        sram = replace(default.region("sram"), bandwidth=case["sram_bw"])
        system = replace(default, regions=(sram, flash))
        size = prod(case["tensor"])
        assert case["hint"][0] == size * case["sram_bw"]
        assert copy_cycles(system, "flash", "sram", size) == -(-size // case["flash_bw"])
