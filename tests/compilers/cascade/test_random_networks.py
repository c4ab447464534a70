"""Random networks with branches, on a machine that looks at the owner of each byte that it reads."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given
from hypothesis import strategies as st

from nnhal.resolved import ResolvedModel
from nnhal_cascade.compiler import (
    CompilerOptions,
    DoesNotFitError,
    compile_graph,
    frontier,
    least_memory,
)
from nnhal_cascade.graph.feeds import InputPlace, with_inputs
from nnhal_cascade.graph.matchers import build_graph
from nnhal_cascade.hardware.memory_file import system_for
from nnhal_cascade.machine.machine import Machine
from nnhal_cascade.schedule.schedule import Schedule
from nnhal_cascade.stream.binary import from_bytes, to_bytes
from nnhal_cascade.stream.emit import emit
from nnhal_devices.cpu_ref.interpreter import Interpreter
from nnhal_devices.driver import Control
from tests.support.ethos_u import is_taken
from tests.support.random_networks import random_networks
from tests.support.searching import search


def assert_as_planned(model: ResolvedModel, schedule: Schedule) -> None:
    """Run a schedule by way of its bytes: it takes what was planned, and computes what cpu_ref does."""
    stream = from_bytes(to_bytes(emit(schedule)))
    machine = Machine(stream, schedule.graph, model, schedule.system, checked=True)
    main, random = model.model.main, np.random.default_rng(0)
    inputs = [
        random.integers(-128, 128, main.operands[index].dimensions).astype(np.int8) for index in main.input_indexes
    ]
    outputs, measured = machine.run(inputs)
    expected = Interpreter(model).run(0, inputs, Control())
    for found, right in zip(outputs, expected, strict=True):
        np.testing.assert_array_equal(found, right)
    assert (measured.peak, measured.cycles) == (schedule.peak, schedule.cycles)


@pytest.mark.slow
@search(8, HealthCheck)
@given(
    random_networks(),
    st.sampled_from(("u55-32", "u55-128", "u55-256", "u65-256")),
    st.booleans(),
    st.sampled_from((1, 3, 10)),
    st.sampled_from(InputPlace),
)
def test_a_machine_takes_what_was_planned_and_computes_what_cpu_ref_does(
    model: ResolvedModel, accelerator: str, recompute: bool, parts: int, place: InputPlace
) -> None:
    assume(is_taken(model))
    graph, system = with_inputs(build_graph(model), place), system_for(accelerator)
    options = CompilerOptions(recompute=recompute, max_plan_parts=parts)
    assert_as_planned(model, compile_graph(graph, system, options))
    least = least_memory(graph, system, options)
    tight = CompilerOptions(least, parts, recompute)
    smallest = compile_graph(graph, system, tight)
    assert smallest.peak == least
    assert_as_planned(model, smallest)
    with pytest.raises(DoesNotFitError):
        compile_graph(graph, system, CompilerOptions(least - 1, parts, recompute))
    schedules = frontier(graph, system, options).points
    assert all(one.cycles < other.cycles and one.peak > other.peak for one, other in pairwise(schedules))
    assert schedules[-1].peak == least
    assert_as_planned(model, schedules[len(schedules) // 2])


@pytest.mark.slow
@search(3, HealthCheck)
@given(random_networks())
def test_more_memory_is_never_slower(model: ResolvedModel) -> None:
    assume(is_taken(model))
    graph, system = build_graph(model), system_for("u55-128")
    least, most = least_memory(graph, system), compile_graph(graph, system).peak
    budgets = sorted({least, *(least + (most - least) * step // 4 for step in (1, 3)), max(least, most)})
    cycles = [compile_graph(graph, system, CompilerOptions(budget)).cycles for budget in budgets]
    assert cycles == sorted(cycles, reverse=True)
