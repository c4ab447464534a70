"""Buffers of a device whose memory is elsewhere, and what its driver copies itself."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from nnhal.endpoint import Endpoint
from nnhal.memory import create_ashmem
from nnhal.remote import RemoteDevice
from nnhal.types import ErrorStatus, ExecutionConfig
from nnhal_conformance import RULES, Known, Rule, Verdict, ask_rule
from nnhal_devices.host.process import host
from nnhal_devices.host.settings import DeviceSettings
from tests.support.device_memory import (
    FLOAT32,
    OPEN,
    SHAPE,
    TWICE,
    adding,
    adding_twice,
    allocate,
    contents,
    doubling,
    fill,
    given,
    inside,
    request_of,
    require_nothing_in,
    result_in,
    room,
)
from tests.support.distant import Distant
from tests.support.refusals import FAILURE, refusal
from tests.support.resources import everything_given_back
from tests.support.waiting import SECONDS, wait_until

LIMIT = 8 * FLOAT32.size
SHARE = 6 * FLOAT32.size
"""What one client may have of it, in whole tensors."""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Distant, Endpoint]]:
    """Serve the device from this process, with room for six tensors."""
    driver, endpoint = Distant(), Endpoint(tmp_path_factory.mktemp("d"))
    with host(driver, endpoint, DeviceSettings(buffer_bytes=LIMIT)):
        yield driver, endpoint


@pytest.fixture
def driver(served: tuple[Distant, Endpoint]) -> Iterator[Distant]:
    """Return the driver, with its counters at zero. Check that no test leaves memory of the device allocated."""
    driver, endpoint = served
    driver.copied_in = driver.copied_out = driver.own.fetched = driver.own.stored = 0
    with everything_given_back(endpoint):
        yield driver
    wait_until(lambda: driver.own.bytes == 0, "the device's memory is freed")
    driver.own.refuses = False
    driver.fails = lambda: ErrorStatus.NONE


@pytest.fixture
def distant(driver: Distant, served: tuple[Distant, Endpoint]) -> Iterator[RemoteDevice]:
    with RemoteDevice(served[1], "test") as remote:
        yield remote


BUFFER_RULES = {name: rule for name, rule in RULES.items() if "buffers" in rule.group or "buffer-" in rule.group}
KNOWN = Known()


@pytest.mark.parametrize("rule", BUFFER_RULES.values(), ids=BUFFER_RULES)
def test_the_rules_about_buffers_hold(served: tuple[Distant, Endpoint], driver: Distant, rule: Rule) -> None:
    result = ask_rule(rule, served[1], SECONDS, KNOWN)
    assert result.verdict is Verdict.PASSED, f"{rule.sentence} {result.words}"
    if "buffers.all-arguments" in rule.names:
        assert (driver.copied_in, driver.copied_out) == (0, 0)
        assert driver.own.stored > 0 < driver.own.fetched


def test_a_buffer_that_has_grown_keeps_its_values_until_others_are_written(
    distant: RemoteDevice, driver: Distant
) -> None:
    prepared = distant.prepare_model(adding_twice(FLOAT32, OPEN))
    grows, fixed = allocate(distant, prepared, [0], [0]), allocate(distant, prepared, [], [1], SHAPE)
    prepared.execute(request_of([given(1), given(2)], [inside(grows), inside(fixed)]))
    wrong = request_of([given(1, 2), given(2, 2)], [inside(grows, TWICE), inside(fixed, TWICE)])
    refusal(lambda: prepared.execute(wrong), ErrorStatus.INVALID_ARGUMENT, "output 1 has dimensions .2, 32, 32, 8.")
    assert distant.usage().buffer_bytes == 3 * FLOAT32.size
    assert contents(grows).tolist() == (FLOAT32.values(1) + FLOAT32.values(2)).tolist()


def test_the_device_s_own_refusal_is_the_answer_and_the_budget_is_given_back(
    distant: RemoteDevice, driver: Distant
) -> None:
    prepared = distant.prepare_model(doubling(FLOAT32))
    driver.own.refuses = True
    refusal(lambda: allocate(distant, prepared, [0]), FAILURE, "the device has no more memory")
    assert distant.usage().buffer_bytes == 0
    driver.own.refuses = False
    kept = [allocate(distant, prepared, [0]) for _ in range(SHARE // FLOAT32.size)]
    assert (distant.usage().buffer_bytes, driver.own.bytes) == (SHARE, SHARE)
    refusal(lambda: allocate(distant, prepared, [0]), FAILURE, f"all clients together hold {SHARE} of {LIMIT}")
    kept.pop().release()
    wait_until(lambda: driver.own.bytes == SHARE - FLOAT32.size, "the device's memory is freed")


def test_what_the_driver_copies_is_reported_as_staged(distant: RemoteDevice, driver: Distant) -> None:
    prepared = distant.prepare_model(adding(FLOAT32))
    before, result = distant.usage().staged_bytes, room()
    kept = allocate(distant, prepared, [1])
    fill(kept, 1)
    request, size = request_of([given(2), inside(kept)], [result]), FLOAT32.size
    burst = prepared.configure_execution_burst()
    for config in (ExecutionConfig(measure_timing=True), ExecutionConfig()):
        outcome = burst.execute(request, config=config)
        assert outcome.staged_bytes == 2 * size
        expected = [(False, size, True), (True, size, True)] if config.measure_timing else []
        assert [(copy.is_output, copy.bytes, copy.is_wire) for copy in outcome.copies] == expected
        if config.measure_timing:
            timing = outcome.result.timing
            assert outcome.staging_ns == sum(copy.ended_ns - copy.started_ns for copy in outcome.copies) > 0
            assert 0 <= timing.time_on_device_ns <= timing.time_in_driver_ns - outcome.staging_ns
    burst.close()
    assert result_in(result) == (FLOAT32.values(1) + FLOAT32.values(2)).tolist()
    assert distant.usage().staged_bytes - before == driver.copied_in + driver.copied_out == 4 * size
    launched = prepared.execute_fenced(request, config=ExecutionConfig(measure_timing=True))
    if launched.fence is not None:
        launched.fence.wait(30)
    assert [(copy.is_output, copy.bytes) for copy in launched.info().copies] == [(False, size), (True, size)]
    launched.release()


def test_a_copy_of_the_wrong_size_asks_nothing_of_the_device(distant: RemoteDevice, driver: Distant) -> None:
    prepared = distant.prepare_model(doubling(FLOAT32))
    buffer = allocate(distant, prepared, [0])
    fill(buffer, 1)
    driver.own.stored = 0
    refusal(lambda: buffer.copy_to(create_ashmem(4)), ErrorStatus.INVALID_ARGUMENT, "a destination of 4 bytes")
    refusal(lambda: buffer.copy_from(create_ashmem(4)), ErrorStatus.INVALID_ARGUMENT, "a source of 4 bytes")
    assert (driver.own.fetched, driver.own.stored) == (0, 0)
    require_nothing_in(buffer)
