"""The state of a sequence of runs: which buffers runs read and write, and when it begins anew."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

from nnhal.endpoint import Endpoint
from nnhal.errors import HalError
from nnhal.memory import create_ashmem, open_pool
from nnhal.types import ErrorStatus
from nnhal_devices.cpu_ref.driver import CpuRef
from nnhal_devices.host.process import host
from nnhal_devices.host.settings import DeviceSettings
from nnhal_frontends import import_model
from nnhal_service.partition import Options
from nnhal_service.runtime import Fleet, LoadedModel, StateLostError, prepare
from nnhal_service.runtime.memory.domains import AllocatedMemory
from nnhal_service.runtime.memory.state import CarriedState
from tests.support.tflite_variables import running_sum


@pytest.fixture
def model(short_path: Path) -> Iterator[LoadedModel]:
    """A model whose state is three floats, 10, 20 and 30 at the beginning."""
    with ExitStack() as stack:
        endpoint = Endpoint(short_path / "cpu_ref")
        stack.enter_context(host(CpuRef(), endpoint, DeviceSettings()))
        fleet = Fleet({"cpu_ref": endpoint})
        stack.callback(fleet.close)
        loaded = LoadedModel(prepare(import_model(running_sum()), fleet, (), Options()))
        stack.callback(loaded.close)
        yield loaded


@pytest.fixture
def state(model: LoadedModel) -> Iterator[CarriedState]:
    found = model.new_state()
    yield found
    found.leave()


def values(state: CarriedState) -> list[float]:
    """Return what the next run reads."""
    (binding,) = state.inputs(state.turn)
    assert isinstance(binding.memory, AllocatedMemory)
    memory = create_ashmem(12, "values")
    binding.memory.copy_to(memory)
    found: list[float] = open_pool(memory, writable=False).read(0, 12).view(np.float32).tolist()
    return found


def assign(state: CarriedState, *floats: float) -> None:
    """Do what a run does: write its state, and have the next run read that."""
    (binding,) = state.outputs(state.turn)
    assert isinstance(binding.memory, AllocatedMemory)
    memory = create_ashmem(12, "values")
    open_pool(memory, writable=True).write(0, np.array(floats, np.float32).view(np.uint8))
    binding.memory.copy_from(memory)
    state.advance()


def test_it_has_its_initial_values_when_they_are_required(state: CarriedState) -> None:
    ready = [state.is_ready]
    state.require()
    ready.append(state.is_ready)
    assert ready == [False, True]
    assert values(state) == [10, 20, 30]
    assert state.output_names == {"sum/after"}


def test_a_run_reads_what_the_last_one_wrote(state: CarriedState) -> None:
    state.require()
    assign(state, 1, 2, 3)
    assert values(state) == [1, 2, 3]
    assign(state, 4, 5, 6)
    state.require()
    assert values(state) == [4, 5, 6]
    (before,), (after,) = state.inputs(0), state.outputs(0)
    assert (before.name, after.name) == ("sum", "sum/after")
    assert before.memory is state.outputs(1)[0].memory
    assert after.memory is state.inputs(1)[0].memory
    assert before.memory is not after.memory


def test_a_run_that_fails_leaves_it_as_it_was(state: CarriedState) -> None:
    state.require()
    assign(state, 1, 2, 3)
    state.require_kept(HalError(ErrorStatus.GENERAL_FAILURE, "a run failed"))
    assert values(state) == [1, 2, 3]


@pytest.mark.parametrize("runs", [0, 1, 2])
def test_it_begins_anew_when_that_is_asked_for(state: CarriedState, runs: int) -> None:
    state.require()
    for _ in range(runs):
        assign(state, 1, 2, 3)
    state.forget()
    assert not state.is_ready
    state.require()
    assert values(state) == [10, 20, 30]


def test_values_that_are_lost_are_missed_once(state: CarriedState) -> None:
    state.require()
    state.advance()  # to values that no run has written
    with pytest.raises(StateLostError, match=r"was lost with .*; the next run begins with its initial values"):
        state.require()
    state.require()
    assert values(state) == [10, 20, 30]


def test_an_error_of_a_run_is_that_its_state_is_lost_if_it_is(state: CarriedState) -> None:
    state.require()
    state.advance()
    error = HalError(ErrorStatus.GENERAL_FAILURE, "a run failed")
    with pytest.raises(StateLostError) as caught:
        state.require_kept(error)
    assert caught.value.__cause__ is error
    state.require_kept(error)  # it has been told


def test_its_memory_is_there_until_the_last_user_leaves(model: LoadedModel) -> None:
    state = model.new_state()
    state.use()
    memories = [binding.memory for turn in range(2) for binding in state.inputs(turn)]
    state.leave()
    state.require()
    assert values(state) == [10, 20, 30]
    state.leave()
    assert [isinstance(memory, AllocatedMemory) and memory.closed for memory in memories] == [True, True]


def test_it_keeps_to_the_plan_that_it_was_made_for(model: LoadedModel, state: CarriedState) -> None:
    assert state.is_current
    assert state.prepared is model.original


def test_states_are_apart(model: LoadedModel, state: CarriedState) -> None:
    other = model.new_state()
    state.require()
    other.require()
    assign(state, 1, 2, 3)
    assert values(other) == [10, 20, 30]
    other.leave()
