"""One client takes all memory that a device may have: it is refused in words, and the others run on."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from nnhal.endpoint import Endpoint
from nnhal.errors import NnhalError
from nnhal.memory import create_ashmem
from nnhal.remote import RemoteDevice
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
from tests.support.process_limits import memory_limit
from tests.support.processes import device_process
from tests.support.refusals import refusal
from tests.support.waiting import wait_until

LARGE, SMALL, PAGE = 64 << 20, 4 << 10, 4 << 10
RUNS_OF_A_NEWCOMER = 20
pytestmark = pytest.mark.slow


def summing(size: int) -> Model:
    """A model that sums a tensor of ``size`` bytes by way of another of that size."""
    recipe, shape = Recipe(), (1, size // 4)
    given = recipe.input(OperandType.TENSOR_FLOAT32, shape)
    inner = recipe.operation(OperationType.TANH, [given], Operand(OperandType.TENSOR_FLOAT32, shape))
    axis, keep = recipe.constant(OperandType.TENSOR_INT32, [1]), recipe.constant(OperandType.BOOL, True)
    total = Operand(OperandType.TENSOR_FLOAT32, (1, 1))
    return recipe.build(recipe.operation(OperationType.REDUCE_SUM, [inner, axis, keep], total)).model


def request(memory: Memory, size: int) -> Request:
    return Request(
        (RequestArgument(DataLocation(0, 0, size)),), (RequestArgument(DataLocation(0, size, 4)),), (memory,)
    )


class Others:
    """Four clients that run a small model: two over one burst for ever, two that come anew after some runs."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._over = threading.Event()
        self.runs: Counter[int] = Counter()
        self.threads = [
            threading.Thread(target=self._come, args=(number, number % 2 == 0), daemon=True) for number in range(4)
        ]

    @contextmanager
    def coming(self) -> Iterator[None]:
        for thread in self.threads:
            thread.start()
        self.go_on("at the start")
        try:
            yield
        finally:
            self._over.set()
        for thread in self.threads:
            thread.join()

    def go_on(self, when: str) -> None:
        """Wait until each of them has run the model as often as newcomers do that come so many times."""
        before = self.runs.copy()
        wait_until(
            lambda: all(self.runs[number] >= before[number] + 10 * RUNS_OF_A_NEWCOMER for number in range(4)),
            f"all others run {when}",
        )

    def _come(self, number: int, stays: bool) -> None:
        while not self._over.is_set():
            with suppress(NnhalError), RemoteDevice(self._endpoint, f"other {number}") as device:
                prepared = device.prepare_model(summing(SMALL))
                execution = prepared.create_reusable_execution(request(create_ashmem(SMALL + PAGE), SMALL))
                burst, count = prepared.configure_execution_burst(), 0
                while not self._over.is_set() and (stays or count < RUNS_OF_A_NEWCOMER):
                    burst.run(execution)
                    count += 1
                    self.runs[number] += 1


def test_others_run_on_while_one_client_takes_all_memory(tmp_path: Path) -> None:
    with ExitStack() as stack:
        child, endpoint = stack.enter_context(device_process("cpu_acc", tmp_path))
        large = stack.enter_context(RemoteDevice(endpoint, "large"))
        prepared, memory = large.prepare_model(summing(LARGE)), create_ashmem(LARGE + PAGE)
        others = Others(endpoint)
        stack.enter_context(others.coming())
        execution = prepared.create_reusable_execution(request(memory, LARGE))
        burst = prepared.configure_execution_burst()
        with memory_limit(LARGE // 2, child.pid):
            for _ in range(3):
                refusal(lambda: burst.run(execution), ErrorStatus.RESOURCE_EXHAUSTED_TRANSIENT, "no memory left")
            others.go_on("while one is refused")
        with memory_limit(0, child.pid):
            others.go_on("while there is no memory for anybody")  # for long, no library survives that
        burst.run(execution)
