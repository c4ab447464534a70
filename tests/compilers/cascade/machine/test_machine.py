"""Streams of small networks: what comes out is what cpu_ref computes, and what is measured is what was executed."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest

from nnhal.arrays import Array
from nnhal.errors import HalError
from nnhal.operations.operand_types import Q8AS
from nnhal.resolved import ResolvedModel
from nnhal.types import ErrorStatus
from nnhal_cascade.geometry.box import Axis, Box, Interval, Shape
from nnhal_cascade.graph.cascader_graph import CascaderGraph
from nnhal_cascade.graph.matchers import build_graph
from nnhal_cascade.hardware.memory_file import system_for
from nnhal_cascade.machine.machine import Machine
from nnhal_cascade.machine.meter import RunMeasurement
from nnhal_cascade.performance.price import Price, StripePlaces, copy_cycles
from nnhal_cascade.performance.stripe_pricer import StripePricer
from nnhal_cascade.plans.plan import Plan, WeightsIn
from nnhal_cascade.schedule.schedule import Schedule
from nnhal_cascade.stream.emit import emit
from nnhal_devices.cpu_ref.driver import CpuRef
from nnhal_devices.driver import Control
from tests.support.agreement import inputs_of, random
from tests.support.models import run_on
from tests.support.schedules import cascade, one_by_one, schedule_of
from tests.support.small_networks import flattened, residual, two_convs

SYSTEM = system_for("u55-128")
SRAM = SYSTEM.working.name
FLASH = SYSTEM.constants.name


def run(schedule: Schedule, model: ResolvedModel) -> RunMeasurement:
    """Run a schedule in both modes, compare the outputs with those of cpu_ref, and return what was measured."""
    inputs = inputs_of(model)
    stream, expected = emit(schedule), run_on(CpuRef(), model, *inputs)
    measured = []
    for checked in (True, False):
        outputs, measurement = Machine(stream, schedule.graph, model, schedule.system, checked).run(inputs)
        measured.append(measurement)
        for got, wanted in zip(outputs, expected, strict=True):
            assert got.dtype == wanted.dtype
            np.testing.assert_array_equal(got, wanted)
    assert measured[0] == measured[1]
    return measured[0]


def all_at_once(graph: CascaderGraph, stripe: int, weights: WeightsIn = WeightsIn.STREAMED) -> list[Plan]:
    return [cascade(graph, range(len(graph.parts)), stripe, weights=weights)]


MODELS = pytest.mark.parametrize("make", [two_convs, residual, flattened])


@MODELS
@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("stripe", [1, 2, 3])
@pytest.mark.parametrize("weights", [WeightsIn.STREAMED, WeightsIn.RESIDENT])
def test_a_cascade_computes_what_cpu_ref_computes(
    make: Callable[[], ResolvedModel], stripe: int, weights: WeightsIn, backwards: bool
) -> None:
    model = make()
    graph = build_graph(model)
    run(schedule_of(graph, SYSTEM, all_at_once(graph, stripe, weights), [backwards]), model)


@MODELS
@pytest.mark.parametrize("along", Axis)
@pytest.mark.parametrize("weights", [WeightsIn.STREAMED, WeightsIn.RESIDENT])
def test_parts_on_their_own_are_cut_along_any_axis(
    make: Callable[[], ResolvedModel], along: Axis, weights: WeightsIn
) -> None:
    model = make()
    graph = build_graph(model)
    plans = [cascade(graph, [part.index], 3, along, weights) for part in graph.parts]
    run(schedule_of(graph, SYSTEM, plans), model)


def test_tiles_compute_again_what_they_share() -> None:
    model = two_convs()
    graph = build_graph(model)
    tiles = [
        Box(Interval(row, row + 4), Interval(column, column + 4), Interval(0, 4)) for row in (0, 4) for column in (0, 4)
    ]
    tiled = cascade(graph, [0, 1], 1, tiles=tiles)
    measured = run(schedule_of(graph, SYSTEM, [tiled]), model)
    assert measured.macs > run(schedule_of(graph, SYSTEM, all_at_once(graph, 1)), model).macs


def test_what_was_measured_is_what_was_planned() -> None:
    model = two_convs()
    graph = build_graph(model)
    schedule = schedule_of(graph, SYSTEM, all_at_once(graph, 1))
    measured = run(schedule, model)
    image, rows, made = 12 * 12 * 8, 3 * 10 * 8, 8 * 8 * 4
    assert schedule.peak == measured.peak == image + rows + made
    assert measured.peaks == {SRAM: measured.peak}
    # The image dies row by row from when the first row has been computed, of which nothing is dead yet.
    assert measured.live == image + 10 * 8
    assert measured.stripes == 10 + 8
    assert measured.macs == 10 * 10 * 8 * 72 + 8 * 8 * 4 * 72


def prices(graph: CascaderGraph, stripes: Sequence[tuple[int, Shape, Shape]], constants: str) -> list[Price]:
    pricer = StripePricer(graph, SYSTEM)
    places = StripePlaces((SRAM,), SRAM, constants)
    return [pricer.price(part, output, (given,), places) for part, output, given in stripes]


def test_cycles_of_a_plan_are_those_of_its_stripes_and_of_filling_the_pipeline_once_for_each_part() -> None:
    model = two_convs()
    graph = build_graph(model)
    measured = run(schedule_of(graph, SYSTEM, all_at_once(graph, 1)), model)
    first = prices(graph, [(0, Shape(1, 10, 8), Shape(3, 12, 8))] * 10, FLASH)
    second = prices(graph, [(1, Shape(1, 8, 4), Shape(3, 10, 8))] * 8, FLASH)
    assert measured.cycles == sum(each.cycles for each in first + second) + first[0].fill + second[0].fill
    for region in (SRAM, FLASH):
        assert measured.read[region] == sum(each.read.get(region, 0) for each in first + second)


def test_plans_fill_the_pipeline_again() -> None:
    model = two_convs()
    graph = build_graph(model)
    measured = run(schedule_of(graph, SYSTEM, one_by_one(graph)), model)
    both = prices(graph, [(0, Shape(10, 10, 8), Shape(12, 12, 8)), (1, Shape(8, 8, 4), Shape(10, 10, 8))], FLASH)
    assert measured.cycles == sum(each.cycles + each.fill for each in both)


def test_the_npu_waits_for_constants_that_become_resident() -> None:
    model = two_convs()
    graph = build_graph(model)
    measured = run(schedule_of(graph, SYSTEM, all_at_once(graph, 8, WeightsIn.RESIDENT)), model)
    streamed = run(schedule_of(graph, SYSTEM, all_at_once(graph, 8)), model)
    held = [
        part.constants.bytes_of(Interval(0, channels))
        for part, channels in zip(graph.parts, (8, 4), strict=True)
        if part.constants
    ]
    stripes = [
        (0, Shape(8, 10, 8), Shape(10, 12, 8)),
        (0, Shape(2, 10, 8), Shape(4, 12, 8)),
        (1, Shape(8, 8, 4), Shape(10, 10, 8)),
    ]
    run_prices = prices(graph, stripes, SRAM)
    first, second = (copy_cycles(SYSTEM, FLASH, SRAM, size) for size in held)
    convolved = first + sum(each.cycles for each in run_prices[:2]) + max(each.fill for each in run_prices[:2])
    assert measured.cycles == max(convolved, first + second) + run_prices[2].cycles + run_prices[2].fill
    assert measured.read[FLASH] == sum(held) < streamed.read[FLASH]


def test_constants_of_the_next_stripe_are_copied_while_one_runs() -> None:
    model = two_convs()
    graph = build_graph(model)
    plans = [cascade(graph, [0], 4, Axis.CHANNELS, WeightsIn.DOUBLE_BUFFERED), cascade(graph, [1], 99)]
    schedule = schedule_of(graph, SYSTEM, plans)
    measured = run(schedule, model)
    constants = graph.parts[0].constants
    assert constants is not None
    copy = copy_cycles(SYSTEM, FLASH, SRAM, constants.bytes_of(Interval(0, 4)))
    (stripe,) = prices(graph, [(0, Shape(10, 10, 4), Shape(12, 12, 8))], SRAM)
    (last,) = prices(graph, [(1, Shape(8, 8, 4), Shape(10, 10, 8))], FLASH)
    first_half = copy + stripe.cycles + stripe.fill
    assert measured.cycles == max(first_half, 2 * copy) + stripe.cycles + last.cycles + last.fill


def test_tensors_may_lie_in_the_spill_region() -> None:
    system = system_for("u65-256")
    spill = system.spill
    assert spill is not None
    model = two_convs()
    graph = build_graph(model)
    schedule = schedule_of(graph, system, one_by_one(graph))
    moved = replace(schedule.tensors[1], region=spill.name, address=64)
    tensors = (schedule.tensors[0], moved, schedule.tensors[2])
    measured = run(replace(schedule, tensors=tensors, spill_peak=64 + moved.bytes), model)
    assert measured.peaks[spill.name] == 64 + moved.bytes
    assert measured.written[spill.name] >= moved.bytes


def test_a_dying_input_and_the_output_share_addresses() -> None:
    model = two_convs()
    graph = build_graph(model)
    schedule = schedule_of(graph, SYSTEM, all_at_once(graph, 1))
    image, _, made = schedule.tensors
    # A row of the output has 32 bytes and follows the death of a row of 96: it may be written over the image's start.
    shared = replace(schedule, tensors=(image, schedule.tensors[1], replace(made, address=image.address)))
    run(shared, model)


def test_a_run_stops_at_its_deadline() -> None:
    model = two_convs()
    graph = build_graph(model)
    machine = Machine(emit(schedule_of(graph, SYSTEM, all_at_once(graph, 1))), graph, model, SYSTEM)
    with pytest.raises(HalError) as caught:
        machine.run(inputs_of(model), Control(deadline_ns=1).check)
    assert caught.value.status == ErrorStatus.MISSED_DEADLINE_TRANSIENT


def test_nothing_holds_the_inputs_when_a_run_is_over() -> None:
    model = two_convs()
    graph = build_graph(model)
    machine = Machine(emit(schedule_of(graph, SYSTEM, all_at_once(graph, 1))), graph, model, SYSTEM)
    (image,) = inputs_of(model)
    gone = weakref.ref(image)
    gc.disable()
    try:
        machine.run([image])
        del image
        assert gone() is None
    finally:
        gc.enable()


def test_several_threads_run_one_machine() -> None:
    model = two_convs()
    graph = build_graph(model)
    machine = Machine(emit(schedule_of(graph, SYSTEM, all_at_once(graph, 1))), graph, model, SYSTEM, checked=True)
    inputs = [random(Q8AS, (1, 12, 12, 8), seed) for seed in range(4)]
    results: dict[int, Array] = {}

    def work(seed: int) -> None:
        (results[seed],), _ = machine.run([inputs[seed]])

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for seed, values in enumerate(inputs):
        np.testing.assert_array_equal(results[seed], run_on(CpuRef(), model, values)[0])
