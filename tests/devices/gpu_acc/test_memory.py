from __future__ import annotations

import pytest

from nnhal.errors import HalError
from nnhal.operations.operand_types import F32
from nnhal.resolved import ResolvedModel
from nnhal.types import ErrorStatus, OperationType
from nnhal_devices.driver import DriverOptions, PrepareOptions
from nnhal_devices.gpu_acc.driver import GpuAcc
from nnhal_devices.gpu_acc.memory import LoadedNetworks, WorkingMemory, working_bytes
from tests.support.agreement import like, random
from tests.support.models import Recipe, run_on


def _chain(length: int, elements: int = 8) -> ResolvedModel:
    """Square roots of a vector, one after the other, the last one the output."""
    recipe = Recipe()
    value = recipe.input(F32, (elements,))
    for _ in range(length):
        value = recipe.operation(OperationType.SQRT, [value], like(F32, (elements,) if elements else ()))
    return recipe.build(value)


@pytest.mark.parametrize(("length", "vectors"), [(1, 0), (2, 1), (3, 2), (9, 2)])
def test_a_chain_needs_what_an_operation_reads_and_writes(length: int, vectors: int) -> None:
    assert working_bytes(_chain(length)) == vectors * 8 * 4


def test_a_value_is_needed_until_its_last_reader_has_run() -> None:
    recipe = Recipe()
    given, none = recipe.input(F32, (8,)), recipe.integers(0)
    first = recipe.operation(OperationType.SQRT, [given], like(F32, (8,)))
    second = recipe.operation(OperationType.SQRT, [first], like(F32, (8,)))
    third = recipe.operation(OperationType.SQRT, [second], like(F32, (8,)))
    model = recipe.build(recipe.operation(OperationType.ADD, [first, third, *none], like(F32, (8,))))
    assert working_bytes(model) == 3 * 8 * 4


def test_it_grows_to_the_largest_need_and_goes_with_the_last_holder() -> None:
    memory = WorkingMemory(100)
    memory.acquire()
    memory.grow(30)
    memory.acquire()
    memory.grow(20)
    assert memory.bytes == 30
    memory.release()
    assert memory.bytes == 30
    memory.release()
    assert memory.bytes == 0


def test_more_than_there_is_fails_and_costs_the_others_nothing() -> None:
    memory = WorkingMemory(100)
    memory.acquire()
    memory.grow(100)
    with pytest.raises(HalError, match="101 bytes of working memory, gpu_acc has 100") as caught:
        memory.grow(101)
    assert caught.value.status == ErrorStatus.GENERAL_FAILURE
    assert memory.bytes == 100


def test_loaded_networks_keep_it_between_executions() -> None:
    memory = WorkingMemory(100)
    networks = LoadedNetworks(memory)
    for number in (1, 2):
        networks.before_load_network(number)
        networks.after_load_network(number)
    memory.acquire()
    memory.grow(30)
    memory.release()
    networks.before_unload_network(1)
    networks.after_unload_network(1)
    assert memory.bytes == 30
    networks.before_unload_network(2)
    networks.after_unload_network(2)
    assert memory.bytes == 0


def test_a_model_that_never_fits_is_not_prepared() -> None:
    with pytest.raises(HalError, match="64 bytes of working memory, gpu_acc has 63"):
        GpuAcc(DriverOptions(), 63).prepare(_chain(3), PrepareOptions())
    run_on(GpuAcc(DriverOptions(), 64), _chain(3), random(F32, (8,)))


def test_a_model_of_open_size_fails_when_it_runs() -> None:
    driver = GpuAcc(DriverOptions(), 64)
    with pytest.raises(HalError, match="72 bytes of working memory, gpu_acc has 64"):
        run_on(driver, _open_chain(), random(F32, (9,)))
    run_on(driver, _open_chain(), random(F32, (8,)))


def _open_chain() -> ResolvedModel:
    recipe = Recipe()
    value = recipe.input(F32, (0,))
    for _ in range(3):
        value = recipe.operation(OperationType.SQRT, [value], like(F32))
    return recipe.build(value)


def test_a_run_leaves_none_of_it_taken() -> None:
    driver = GpuAcc(DriverOptions())
    memory = driver.backend.memory_manager
    assert isinstance(memory, WorkingMemory)
    run_on(driver, _chain(3), random(F32, (8,)))
    assert memory.bytes == 0
