"""A host that runs out of memory or descriptors: the device says so, and serves on when there is some again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pytest

from nnhal.errors import HalError
from nnhal.memory import create_ashmem, open_pool
from nnhal.remote import RemoteDevice, RemotePreparedModel
from nnhal.types import (
    DataLocation,
    ErrorStatus,
    Memory,
    Model,
    Operand,
    OperandType,
    OperationType,
    Request,
    RequestArgument,
)
from tests.support.models import Recipe
from tests.support.plain_words import require_plain
from tests.support.process_limits import descriptor_limit, memory_limit
from tests.support.processes import own_device
from tests.support.refusals import refusal

pytestmark = pytest.mark.slow

EXHAUSTED = ErrorStatus.RESOURCE_EXHAUSTED_TRANSIENT
SPARE = 256 << 20
TOO_LARGE = 1 << 30
ROOM = 1024


@dataclass
class Limited:
    """A device whose process may be limited, and a prepared model that makes as many numbers as its input says."""

    pid: int
    device: RemoteDevice
    filling: RemotePreparedModel

    def fill(self, *dimensions: int) -> None:
        """Make a tensor of these dimensions, in a small pool."""
        memory = create_ashmem(2 * ROOM)
        open_pool(memory, writable=True).write(0, np.array(dimensions, np.int32).view(np.uint8))
        self.filling.execute(self.request(memory))

    def request(self, memory: Memory) -> Request:
        """A request in a pool of at least 2 KiB."""
        return Request(
            (RequestArgument(DataLocation(0, 0, 8)),), (RequestArgument(DataLocation(0, ROOM, ROOM)),), (memory,)
        )


def filling() -> Model:
    """A model that makes a tensor of the dimensions in its input."""
    recipe = Recipe()
    dimensions = recipe.input(OperandType.TENSOR_INT32, (2,))
    value = recipe.constant(OperandType.FLOAT32, 1.0)
    made = Operand(OperandType.TENSOR_FLOAT32, (0, 0))
    return recipe.build(recipe.operation(OperationType.FILL, [dimensions, value], made)).model


@pytest.fixture(scope="module")
def limited() -> Iterator[Limited]:
    with (
        own_device("cpu_ref") as (child, endpoint),
        RemoteDevice(endpoint, "limited") as device,
    ):
        yield Limited(child.pid, device, device.prepare_model(filling()))


def require_exhausted(call: Callable[[], object], words: str) -> None:
    require_plain(refusal(call, EXHAUSTED, words).message)


def test_memory_for_a_tensor_that_cannot_be_had_is_exhausted(limited: Limited) -> None:
    with memory_limit(SPARE, limited.pid):
        require_exhausted(lambda: limited.fill(1 << 14, 1 << 14), "no memory left")
        limited.fill(2, 2)


@pytest.mark.parametrize("dimensions", [(1 << 15, 1 << 15), (2**31 - 1, 2**31 - 1)])
def test_a_tensor_beyond_the_limit_of_the_hal_is_refused_with_both_numbers(
    limited: Limited, dimensions: Sequence[int]
) -> None:
    with memory_limit(SPARE, limited.pid), pytest.raises(HalError, match=r"take.* at most 4294967295") as caught:
        limited.fill(*dimensions)
    require_plain(caught.value.message)


def test_a_pool_that_cannot_be_mapped_is_exhausted(limited: Limited) -> None:
    request = limited.request(create_ashmem(TOO_LARGE))
    with memory_limit(SPARE, limited.pid):
        require_exhausted(lambda: limited.filling.execute(request), "a pool cannot be mapped: .* no memory left")
    limited.filling.execute(request)


def test_descriptors_that_cannot_be_had_are_exhausted(limited: Limited) -> None:
    with descriptor_limit(0, limited.pid):
        require_exhausted(limited.filling.configure_execution_burst, "no descriptor left")
        require_exhausted(limited.device.open_launcher, "no descriptor left")
        require_exhausted(lambda: limited.fill(2, 2), "no descriptor left for those that came with the message")
    limited.fill(2, 2)
    limited.filling.configure_execution_burst().close()
