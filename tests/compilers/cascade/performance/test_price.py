"""Copies between memories."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from math import prod
from pathlib import Path

import pytest

from nnhal_cascade.hardware.memory_file import system_for
from nnhal_cascade.performance.price import Price, Timeline, copy_cycles

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


def price(cycles: int, fill: int = 0) -> Price:
    return Price(cycles, fill, 0, {}, {})


def test_stripes_run_one_after_the_other() -> None:
    timeline = Timeline()
    timeline.run(0, price(10))
    timeline.run(1, price(5))
    assert timeline.end == 15


def test_a_part_pays_its_largest_fill_once_in_a_plan() -> None:
    timeline = Timeline()
    for fill in (3, 7, 2):
        timeline.run(0, price(10, fill))
    assert timeline.end == 37
    timeline.begin_plan()
    timeline.run(0, price(10, 3))
    assert timeline.end == 50


def test_a_copy_runs_beside_stripes_and_a_stripe_waits_for_its_own() -> None:
    timeline = Timeline()
    ready = timeline.copy(12)
    timeline.run(0, price(10))
    assert timeline.now == 10
    timeline.run(1, price(10), ready)
    assert timeline.now == 22


def test_copies_follow_one_another_and_start_when_they_are_issued() -> None:
    timeline = Timeline()
    assert (timeline.copy(5), timeline.copy(5)) == (5, 10)
    timeline.run(0, price(30))
    assert timeline.copy(5) == 35
    assert timeline.end == 35
