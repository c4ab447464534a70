from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from nnhal.arrays import Bytes
from nnhal.errors import DeadObjectError, HalError, general_failure
from nnhal.memory import create_ashmem, create_blob, open_pool
from nnhal.types import ErrorStatus, Memory
from nnhal.v1 import buffer_pb2
from nnhal_service.runtime.memory.domains import AllocatedMemory, Memories, ModelRole, allocate
from tests.service.memory_bench import Start
from tests.support.scripted import refuse

TOGETHER = {"op:ADD": "a", "op:SUB": "a", "op:MUL": "a"}
NO_BUFFERS: dict[str, Any] = {"Device.Allocate": None}
VALUES = np.arange(32, dtype=np.uint8)


def filled(values: Bytes = VALUES) -> Memory:
    memory = create_ashmem(len(values))
    open_pool(memory, writable=True).write(0, values)
    return memory


def content(memory: Memory, size: int = 32) -> list[int]:
    return [int(value) for value in open_pool(memory, writable=False).read(0, size)]


def on_host(start: Start) -> AllocatedMemory:
    """Return host memory of 1 x 8 floats."""
    return allocate([ModelRole(start(NO_BUFFERS).load(TOGETHER), False, 0)])


def refused(status: ErrorStatus, words: str, call: Callable[[], object]) -> None:
    with pytest.raises(HalError, match=words) as error:
        call()
    assert error.value.status == status


def test_values_are_copied_in_and_out(start: Start) -> None:
    memory = on_host(start)
    memory.copy_from(filled())
    taken = create_blob(32)
    memory.copy_to(taken)
    assert content(taken) == content(memory.to_host()[0]) == list(VALUES)
    memory.require_readable((1, 8))
    memory.require_readable((0, 8))
    memory.require_readable(())


@pytest.mark.contract("MR-15")
def test_memory_without_values_cannot_be_an_input(start: Start) -> None:
    memory = on_host(start)
    refused(ErrorStatus.GENERAL_FAILURE, "uninitialised", lambda: memory.require_readable(()))
    refused(ErrorStatus.GENERAL_FAILURE, "uninitialised", memory.to_host)
    memory.written((1, 8), succeeded=True)
    memory.require_readable((1, 8))
    refused(ErrorStatus.INVALID_ARGUMENT, r"\[2, 4\], .* \[1, 8\]", lambda: memory.require_readable((2, 4)))
    memory.written((1, 8), succeeded=False)
    refused(ErrorStatus.GENERAL_FAILURE, "uninitialised", lambda: memory.require_readable(()))


@pytest.mark.contract("MR-12")
@pytest.mark.parametrize("size", [16, 31, 33, 64])
def test_a_copy_of_another_size_is_refused_and_leaves_no_values(start: Start, size: int) -> None:
    memory = on_host(start)
    memory.copy_from(filled())
    other = create_ashmem(size)
    words = f"of {size} bytes, expected 32"
    refused(ErrorStatus.INVALID_ARGUMENT, words, lambda: memory.copy_to(other))
    memory.require_readable(())  # the source is unchanged
    refused(ErrorStatus.INVALID_ARGUMENT, words, lambda: memory.copy_from(other))
    refused(ErrorStatus.INVALID_ARGUMENT, "uninitialised", lambda: memory.copy_to(create_ashmem(32)))


@pytest.mark.contract("MR-12")
def test_copying_from_memory_without_values_leaves_none(start: Start) -> None:
    prepared = start(NO_BUFFERS).load(TOGETHER)
    first, second = (allocate([ModelRole(prepared, False, index)]) for index in (0, 1))
    second.copy_from(filled())
    refused(ErrorStatus.INVALID_ARGUMENT, "uninitialised", lambda: second.copy_from_other(first))
    refused(ErrorStatus.GENERAL_FAILURE, "uninitialised", lambda: second.require_readable(()))
    second.copy_from(filled())
    second.copy_from_other(second)
    first.copy_from_other(second)
    assert content(first.to_host()[0]) == list(VALUES)


@pytest.mark.contract("MR-12")
def test_memory_of_other_dimensions_cannot_be_a_source(start: Start) -> None:
    bench = start(NO_BUFFERS)
    source = allocate([ModelRole(bench.load(TOGETHER), False, 0)])
    destination = allocate([ModelRole(bench.load(TOGETHER, dimensions=[2, 4]), False, 0)])
    source.copy_from(filled())
    destination.copy_from(filled())
    refused(
        ErrorStatus.INVALID_ARGUMENT, r"\[1, 8\] for memory of \[2, 4\]", lambda: destination.copy_from_other(source)
    )
    refused(ErrorStatus.GENERAL_FAILURE, "uninitialised", lambda: destination.require_readable(()))


def test_unknown_dimensions_are_set_by_a_run_and_not_by_a_copy(start: Start) -> None:
    bench = start({})
    memory = allocate([ModelRole(bench.load(TOGETHER, dimensions=[None, 8]), True, 1)])
    refused(
        ErrorStatus.INVALID_ARGUMENT,
        "expected dimensions that agree and are all known",
        lambda: memory.copy_from(filled()),
    )
    memory.written((3, 8), succeeded=True)
    assert memory.dimensions == (3, 8)
    memory.require_readable((0, 8))
    refused(ErrorStatus.INVALID_ARGUMENT, r"\[4, 8\]", lambda: memory.require_readable((4, 8)))
    memory.written((2, 8), succeeded=True)
    memory.copy_to(create_ashmem(64))
    assert bench.devices["a"].count("Buffer.CopyTo") == 1
    memory.written((2, 9), succeeded=True)
    refused(ErrorStatus.GENERAL_FAILURE, "uninitialised", lambda: memory.require_readable(()))
    memory.from_host(create_blob(32), (1, 8))
    assert memory.dimensions == (1, 8)
    assert [list(r.dimensions) for r in bench.devices["a"].requests("Buffer.CopyFrom")] == [[1, 8]]


def test_a_copy_that_fails_on_the_device_leaves_no_values(start: Start) -> None:
    answers = iter([True, False])

    def copy_from(request: Any, call: Any) -> Any:
        return buffer_pb2.CopyFromResponse() if next(answers) else general_failure("no")

    memory = allocate([ModelRole(start({"Buffer.CopyFrom": copy_from}).load(TOGETHER), False, 0)])
    memory.copy_from(filled())
    memory.require_readable(())
    refused(ErrorStatus.GENERAL_FAILURE, "no", lambda: memory.copy_from(filled()))
    refused(ErrorStatus.GENERAL_FAILURE, "uninitialised", lambda: memory.require_readable(()))


@pytest.mark.contract("RS-12")
def test_an_error_of_a_living_device_does_not_have_the_memory_allocated_again(start: Start) -> None:
    unavailable = refuse(HalError(ErrorStatus.DEVICE_UNAVAILABLE, "not this one"))
    bench = start({"Buffer.CopyFrom": unavailable})
    memory = allocate([ModelRole(bench.load(TOGETHER), False, 0)])
    for _ in range(2):
        refused(ErrorStatus.DEVICE_UNAVAILABLE, "not this one", lambda: memory.copy_from(filled()))
    assert bench.allocations() == {"a": 1}


def test_memory_of_a_device_that_is_gone_reports_it(start: Start) -> None:
    bench = start({})
    memory = allocate([ModelRole(bench.load(TOGETHER), False, 0)])
    memory.copy_from(filled())
    bench.devices["a"].__exit__(None, None, None)
    for call in (memory.to_host, lambda: memory.copy_to(create_ashmem(32)), lambda: memory.copy_from(filled())):
        with pytest.raises(DeadObjectError, match="device a's own, and is gone"):
            call()
    memory.close()


@pytest.mark.contract("MR-14")
def test_memory_can_only_be_used_in_its_roles(start: Start) -> None:
    bench = start({})
    prepared, duplicate = bench.load(TOGETHER), bench.load(TOGETHER)
    description = allocate([ModelRole(prepared, False, 1)]).description
    description.require_role(prepared, False, 1)
    description.require_role(prepared, False, 1, (0, 8))
    for model, is_output, index in ((prepared, False, 0), (prepared, True, 1), (duplicate, False, 1)):
        refused(
            ErrorStatus.INVALID_ARGUMENT,
            f"not allocated for {'output' if is_output else 'input'} {index}",
            lambda m=model, o=is_output, i=index: description.require_role(m, o, i),  # type: ignore[misc]
        )
    refused(
        ErrorStatus.INVALID_ARGUMENT,
        r"dimensions \[2, 8\], its memory has \[1, 8\]",
        lambda: description.require_role(prepared, False, 1, (2, 8)),
    )


def test_memory_lives_as_long_as_it_is_used_and_at_most_as_long_as_the_session(start: Start) -> None:
    bench = start({})
    prepared = bench.load(TOGETHER)
    first, second = (allocate([ModelRole(prepared, False, index)]) for index in (0, 1))
    device, memories, binding, other = bench.devices["a"], Memories(), object(), object()
    for memory in (first, second):
        memories.keep(memory, memory)
    memories.keep(first, binding)
    memories.keep(first, other)
    for user in (first, other, other):
        memories.drop(user)
    assert (first.closed, device.count("Buffer.Release")) == (False, 0)
    memories.drop(binding)
    assert (first.closed, device.count("Buffer.Release")) == (True, 1)
    refused(ErrorStatus.INVALID_ARGUMENT, "freed", lambda: memories.keep(first, binding))
    memories.close()
    memories.close()
    assert (second.closed, device.count("Buffer.Release")) == (True, 2)
    late = allocate([ModelRole(prepared, False, 0)])
    refused(ErrorStatus.DEVICE_UNAVAILABLE, "the session is over", lambda: memories.keep(late, late))
    assert device.count("Buffer.Release") == 3
