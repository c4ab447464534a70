from __future__ import annotations

from nnhal_cascade.geometry.box import Shape
from nnhal_cascade.graph.matchers import build_graph
from nnhal_cascade.hardware.memory_file import system_for
from nnhal_cascade.machine.meter import Meter
from nnhal_cascade.performance.price import StripePlaces, copy_cycles
from nnhal_cascade.performance.stripe_pricer import StripePricer
from tests.support.small_networks import two_convs

SYSTEM = system_for("u55-128")
SRAM, FLASH = SYSTEM.working.name, SYSTEM.constants.name
PRICER = StripePricer(build_graph(two_convs()), SYSTEM)
PLACES = StripePlaces((SRAM,), SRAM, SRAM)
OUTPUT, INPUT = Shape(10, 10, 8), Shape(12, 12, 8)
PRICE = PRICER.price(0, OUTPUT, (INPUT,), PLACES)
LONG = 100_000
"""Bytes whose copy takes longer than a stripe."""


def copy(size: int) -> int:
    return copy_cycles(SYSTEM, FLASH, SRAM, size)


def run(meter: Meter, slot: int | None = None) -> None:
    meter.ran(0, OUTPUT, (INPUT,), PLACES, slot)


def test_a_stripe_waits_for_its_own_slot_only() -> None:
    meter = Meter(PRICER, SYSTEM)
    meter.copied(0, 0, SRAM, 50)
    meter.copied(0, 1, SRAM, LONG)
    run(meter, slot=0)
    run(meter, slot=1)
    assert copy(50) + PRICE.cycles + PRICE.fill < copy(LONG)
    assert meter.measurement().cycles == copy(50) + copy(LONG) + PRICE.cycles


def test_a_copy_that_no_stripe_waits_for_takes_its_time_too() -> None:
    meter = Meter(PRICER, SYSTEM)
    run(meter)
    meter.copied(0, 0, SRAM, LONG)
    run(meter)
    assert meter.measurement().cycles == PRICE.cycles + PRICE.fill + copy(LONG)


def test_each_plan_fills_the_pipeline() -> None:
    meter = Meter(PRICER, SYSTEM)
    run(meter)
    run(meter)
    meter.begin_plan()
    run(meter)
    measured = meter.measurement()
    assert measured.cycles == 3 * PRICE.cycles + 2 * PRICE.fill
    assert measured.stripes == 3
    assert measured.macs == 3 * PRICE.macs


def test_peaks_and_live_bytes_are_the_most_at_any_time() -> None:
    meter = Meter(PRICER, SYSTEM)
    meter.allocated(SRAM, 300)
    meter.allocated("dram", 40)
    meter.allocated(SRAM, 200)
    meter.lived(100)
    meter.lived(-60)
    meter.lived(50)
    measured = meter.measurement()
    assert (measured.peak, measured.peaks, measured.live) == (300, {SRAM: 300, "dram": 40}, 100)


def test_copies_are_read_from_where_constants_lie() -> None:
    meter = Meter(PRICER, SYSTEM)
    meter.copied(0, 0, SRAM, 50)
    measured = meter.measurement()
    assert (measured.read, measured.written, measured.cycles) == ({FLASH: 50}, {SRAM: 50}, copy(50))
