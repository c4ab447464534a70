"""The priority of a request on a device."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest
from onnx import helper

from nnhal.arrays import Array
from nnhal.clock import now_ns
from nnhal.endpoint import Endpoint
from nnhal.errors import HalError
from nnhal.remote import RemoteDevice
from nnhal.types import Priority
from nnhal_frontends import import_model
from nnhal_service.partition import Options
from nnhal_service.runtime import Fleet, LoadedModel, prepare
from nnhal_service.serving import ServedModel, ServingConfig
from nnhal_service.serving.config import Priorities
from tests.service.fronted import in_front_of
from tests.support.additions import addition_in_ashmem, addition_model
from tests.support.held_device import NAME, held_device
from tests.support.onnx_models import onnx_model
from tests.support.serving import shared_loop
from tests.support.v2 import floats, infer, raw_request
from tests.support.v2_front import serving
from tests.support.waiting import wait_until

LOW, MEDIUM, HIGH = Priority.LOW, Priority.MEDIUM, Priority.HIGH
LEVELS = ServingConfig(priority_levels=5, default_priority=3)


@pytest.mark.parametrize(
    ("config", "requested", "expected"),
    [
        (ServingConfig(), [1, 2, 3, 0, 4, 99], [HIGH, None, LOW, None, None, None]),
        (LEVELS, [1, 2, 3, 4, 5, 0, 6], [HIGH, HIGH, None, LOW, LOW, None, None]),
        (ServingConfig(priority_levels=2, default_priority=1), [0, 1, 2], [None, None, LOW]),
        (ServingConfig(priority_levels=2, default_priority=2), [0, 1, 2], [None, HIGH, None]),
    ],
)
def test_priorities_above_the_default_are_high_and_those_below_it_low(
    config: ServingConfig, requested: list[int], expected: list[Priority | None]
) -> None:
    assert [Priorities(config, MEDIUM).of([priority]) for priority in requested] == expected


@pytest.mark.parametrize("own", list(Priority))
def test_what_is_the_models_own_needs_no_other(own: Priority) -> None:
    found = [Priorities(ServingConfig(), own).of([priority]) for priority in (0, 1, 2, 3)]
    assert found == [None, *(None if priority is own else priority for priority in (HIGH, MEDIUM, LOW))]


@pytest.mark.parametrize(
    ("own", "requested", "expected"),
    [(MEDIUM, [3, 1, 2], HIGH), (MEDIUM, [3, 0, 3], None), (MEDIUM, [3, 3], LOW), (LOW, [3, 2], MEDIUM)],
)
def test_a_batch_has_its_most_urgent(own: Priority, requested: list[int], expected: Priority | None) -> None:
    assert Priorities(ServingConfig(), own).of(requested) == expected


class Observer:
    """A client of a device that reads how many executions wait."""

    def __init__(self, endpoint: Endpoint, stack: ExitStack) -> None:
        self._prepared = stack.enter_context(RemoteDevice(endpoint, "observer")).prepare_model(addition_model())
        self._addition = addition_in_ashmem()

    def waiting(self) -> int | None:
        """Return how many executions wait for the worker; None if the device does not say."""
        try:
            self._prepared.execute(self._addition.request, deadline_ns=now_ns() + 50_000_000)
        except HalError as error:
            found = re.search(r"(\d+) other executions wait", error.message)
            return int(found.group(1)) if found else None
        return None

    def wait_for(self, number: int) -> None:
        """Wait until ``number`` executions wait."""
        wait_until(lambda: self.waiting() == number, f"{number} executions wait for the worker")


@pytest.mark.parametrize(
    ("config", "priorities", "expected"),
    [
        (ServingConfig(instances=4), [3, 0, 1], [3, 2, 1]),
        (ServingConfig(instances=4, priority_levels=3, default_priority=2), [3, 2, 1], [3, 2, 1]),
        (ServingConfig(instances=4, priority_levels=3, default_priority=1), [2, 3, 1], [3, 1, 2]),
    ],
)
def test_requests_that_reach_a_device_run_there_by_their_priority(
    short_path: Path, config: ServingConfig, priorities: list[int], expected: list[int]
) -> None:
    """The device has one worker, which another request occupies until all of them wait for it."""
    with held_device(short_path) as held, ExitStack() as stack:
        threads = stack.enter_context(ThreadPoolExecutor())
        stack.callback(held.hold_no_more)
        fleet = Fleet({NAME: held.endpoint})
        stack.callback(fleet.close)
        model = onnx_model([helper.make_node("Relu", ["x"], ["y"])], {"x": [1, 1]}, ["y"]).SerializeToString()
        served = ServedModel(
            "m", "1", LoadedModel(prepare(import_model(model), fleet, (), Options())), config, shared_loop()
        )
        stack.callback(served.close)
        stack.callback(held.hold_no_more)
        front = stack.enter_context(serving(short_path, in_front_of(served)))
        observer = Observer(held.endpoint, stack)

        def send(value: float, priority: int) -> Array:
            request = raw_request(x=floats(value))
            request.parameters["priority"].int64_param = priority
            # Among equals the earlier deadline goes first, and gRPC says deadlines in two or three digits only.
            answer = infer(front.channel, request, timeout=30 + 10 * value)
            return np.frombuffer(answer.raw_output_contents[0], np.float32)

        answers = [threads.submit(send, 0, 0)]
        execution = held.next()
        for number, priority in enumerate(priorities, 1):
            answers.append(threads.submit(send, number, priority))
            observer.wait_for(number)
        order = []
        for _ in priorities:
            execution.let_go()
            execution = held.next()
            order.append(np.frombuffer(execution.value, np.float32)[0])
        execution.let_go()
        assert order == expected
        assert [answer.result(30).tolist() for answer in answers] == [[number] for number in range(4)]
