"""Device buffers that several threads or sessions use at the same time: at worst they get errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from nnhal.endpoint import Endpoint
from nnhal.errors import HalError
from nnhal.memory import create_ashmem
from nnhal.remote import RemoteDevice
from nnhal.types import Ashmem, ErrorStatus, Request
from tests.support.bystanders import bystander
from tests.support.device_memory import (
    COUNT,
    FLOAT32,
    OPEN,
    SHAPE,
    WAYS,
    Place,
    adding,
    allocate,
    await_given_back,
    contents,
    doubling,
    inside,
    memory_with,
    read,
    request_of,
)
from tests.support.killed_clients import holding_device_memory, killed_client
from tests.support.refusals import FAILURE, INVALID, refusal
from tests.support.resources import counts_of, resources_of
from tests.support.waiting import wait_until

ROUNDS = 30


@pytest.fixture(params=["cpu_ref", "cpu_acc"])
def endpoint(request: pytest.FixtureRequest) -> Endpoint:
    endpoint: Endpoint = request.getfixturevalue(request.param)
    return endpoint


@pytest.fixture(autouse=True)
def others_are_unharmed(endpoint: Endpoint) -> Iterator[None]:
    """Keep another session executing during each test, and check that the process then holds no more than before."""
    with bystander(endpoint) as other:
        device = other.device
        before, resources = counts_of(device.usage()), resources_of(device.pid)
        yield
        await_given_back(device, before)
        wait_until(lambda: resources_of(device.pid).within(resources), "descriptors and mappings are released")


@pytest.fixture
def session(endpoint: Endpoint) -> Iterator[RemoteDevice]:
    with RemoteDevice(endpoint, "test") as device:
        yield device


class Rush:
    """The steps of threads that use one buffer of unknown dimensions. Each returns how many bytes it copied."""

    def __init__(self, session: RemoteDevice) -> None:
        self._session = session
        self._prepared = session.prepare_model(doubling(FLOAT32, OPEN))
        self._values = [memory_with(FLOAT32.values(images, images * COUNT)) for images in (1, 2, 3)]
        self.buffer = allocate(session, self._prepared, [0], [0])

    def copy_in(self, number: int) -> int:
        values = self._given(number)
        self.buffer.copy_from(values.pool, values.dimensions)
        return values.pool.size

    def copy_out(self, number: int) -> int:
        size = self._given(number).pool.size
        self.buffer.copy_to(create_ashmem(size))
        return size

    def read(self, number: int) -> int:
        """Execute with the buffer as the input, in one way after the other."""
        values = self._given(number)
        room = Place(create_ashmem(values.pool.size), values.dimensions)
        return self._execute(number, request_of([inside(self.buffer, values.dimensions)], [room]))

    def write(self, number: int) -> int:
        """Execute with the buffer as the output, in one way after the other."""
        values = self._given(number)
        return self._execute(number, request_of([values], [inside(self.buffer, values.dimensions)]))

    def come_and_go(self, number: int) -> int:
        """Release another buffer as soon as an execution that needs it is launched, which never fails."""
        own, room = allocate(self._session, self._prepared, [0]), Place(create_ashmem(FLOAT32.size), SHAPE)
        own.copy_from(self._values[0], SHAPE)
        launched = self._prepared.execute_fenced(request_of([inside(own, SHAPE)], [room]))
        own.release()
        if launched.fence is not None:
            launched.fence.wait(30)
        launched.release()
        assert read(room.pool).tolist() == (2 * FLOAT32.values(1)).tolist()
        return FLOAT32.size

    def check(self) -> int:
        copied = 0
        for number in range(3):
            self.write(number)
            values = self._given(number)
            expected = 2 * read(values.pool)
            assert contents(self.buffer, count=len(expected)).tolist() == expected.tolist()
            self.read(number)
            copied += values.pool.size
        return copied

    def _execute(self, number: int, request: Request) -> int:
        ways = list(WAYS.values())
        ways[number % len(ways)](self._session, self._prepared, request)
        return 0

    def _given(self, number: int) -> Place[Ashmem]:
        return Place(self._values[number % 3], (number % 3 + 1, *SHAPE[1:]))


def repeat(step: Callable[[int], int], allowed: tuple[ErrorStatus, ...]) -> int:
    """Repeat a step and return the sum of its results. Raises an error whose status is not allowed."""
    total = 0
    for number in range(ROUNDS):
        try:
            total += step(number)
        except HalError as error:
            if error.status not in allowed:
                raise
    return total


def test_threads_that_use_one_buffer_at_the_same_time_get_errors_at_worst(session: RemoteDevice) -> None:
    rush = Rush(session)
    before = session.usage()
    steps = [(step, (INVALID, FAILURE)) for step in (rush.copy_in, rush.copy_out, rush.read, rush.write)]
    with ThreadPoolExecutor(9) as pool:
        work = [pool.submit(repeat, step, allowed) for step, allowed in [*steps, *steps, (rush.come_and_go, ())]]
    copied = sum(one.result() for one in work)
    assert session.usage().buffer_copied_bytes == before.buffer_copied_bytes + copied
    copied += rush.check()
    after = session.usage()
    assert after.buffer_copied_bytes == before.buffer_copied_bytes + copied
    assert (after.buffers, after.launched, after.executions) == (before.buffers, before.launched, before.executions)
    assert after.buffer_bytes == before.buffer_bytes + 3 * FLOAT32.size


def test_sessions_that_use_their_buffers_at_the_same_time_do_not_interfere(endpoint: Endpoint) -> None:
    def live(seed: int) -> None:
        with RemoteDevice(endpoint, "test") as session:
            prepared = session.prepare_model(adding(FLOAT32))
            values = FLOAT32.values(seed)
            for _ in range(ROUNDS):
                source, target = allocate(session, prepared, [0, 1]), allocate(session, prepared, (), [0])
                source.copy_from(memory_with(values))
                prepared.execute(request_of([inside(source), inside(source)], [inside(target)]))
                assert contents(target).tolist() == (2 * values).tolist()
                source.release()
                target.release()

    with ThreadPoolExecutor(4) as pool:
        for one in [pool.submit(live, seed) for seed in range(4)]:
            one.result()


def test_using_a_buffer_that_is_being_released_is_an_error(session: RemoteDevice) -> None:
    rush = Rush(session)
    rush.copy_in(0)
    steps = [rush.copy_in, rush.copy_out, rush.read, rush.write]
    with ThreadPoolExecutor(4) as pool:
        work = [pool.submit(repeat, step, (INVALID, FAILURE)) for step in steps]
        rush.buffer.release()
    for one in work:
        one.result()
    refusal(lambda: rush.read(0), INVALID, "does not exist")


def test_a_session_that_guesses_tokens_gets_nothing(session: RemoteDevice, endpoint: Endpoint) -> None:
    prepared = session.prepare_model(adding(FLOAT32))
    kept = [allocate(session, prepared, [0], [0]) for _ in range(5)]
    for seed, buffer in enumerate(kept):
        buffer.copy_from(memory_with(FLOAT32.values(seed)))
    with RemoteDevice(endpoint, "thief") as thief:
        own = thief.prepare_model(adding(FLOAT32))
        burst = own.configure_execution_burst()
        values, room = Place(memory_with(FLOAT32.values(9))), Place(create_ashmem(FLOAT32.size))
        for token in range(1, max(buffer.token for buffer in kept) + 20):
            for request in (
                request_of([inside(token), values], [room]),
                request_of([values, values], [inside(token)]),
            ):
                refusal(partial(burst.execute, request), INVALID, f"device buffer {token} does not exist")
        assert not read(room.pool).any()
    for seed, buffer in enumerate(kept):
        assert contents(buffer).tolist() == FLOAT32.values(seed).tolist()


def test_the_memory_of_a_client_that_dies_is_released(endpoint: Endpoint) -> None:
    with RemoteDevice(endpoint, "observer") as observer:
        before = counts_of(observer.usage())
        for _ in range(2):
            with killed_client(holding_device_memory, endpoint.directory):
                pass
            await_given_back(observer, before)
