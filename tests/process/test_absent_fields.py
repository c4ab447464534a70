"""Messages that leave out what they may: an absent deadline, duration, timeout or token is none."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from nnhal.descriptor import Descriptor
from nnhal.endpoint import Endpoint
from nnhal.types import ErrorStatus, ExecutionConfig
from nnhal.v1 import burst_pb2, device_pb2, execution_pb2, types_pb2
from tests.support.additions import addition_in_ashmem, addition_model
from tests.support.entry_points import ENTRY_POINTS, LAUNCH_POINTS, Target, bind
from tests.support.preparations import Arguments, Prepare, prepare_model, prepare_model_with_config
from tests.support.refusals import INVALID, refusal
from tests.support.wire import WireDevice

ABSENT: Any = None
BARE = ExecutionConfig(loop_timeout_duration_ns=ABSENT)
SET_TO_0 = 0


@pytest.fixture
def target(cpu_ref: Endpoint) -> Iterator[Target]:
    """Open a session with the addition, prepared with a model and nothing else."""
    with WireDevice(cpu_ref) as wire:
        message = device_pb2.PrepareModelRequest(model=wire.model(addition_model()))
        events, error = wire.events(wire.device.PrepareModel, message)
        assert error is None
        yield Target(wire, events[-1].notified.prepared_model)


@pytest.mark.parametrize("name", ENTRY_POINTS)
def test_an_execution_without_a_deadline_and_a_timeout(target: Target, name: str) -> None:
    addition = addition_in_ashmem()
    addition.check(lambda: ENTRY_POINTS[name](target, addition.request, BARE, ABSENT), 1, 2)


@pytest.mark.parametrize("name", ENTRY_POINTS)
def test_a_deadline_that_is_set_to_0_has_passed(target: Target, name: str) -> None:
    request = addition_in_ashmem().request
    with pytest.raises(Exception, match="the deadline had passed before the work began"):
        ENTRY_POINTS[name](target, request, BARE, SET_TO_0)


@pytest.mark.parametrize("name", LAUNCH_POINTS)
def test_a_launch_without_a_deadline_a_duration_and_a_timeout(target: Target, name: str) -> None:
    addition = addition_in_ashmem()

    def launch() -> None:
        launched = LAUNCH_POINTS[name](target, addition.request, config=BARE, deadline_ns=ABSENT, duration_ns=ABSENT)
        assert launched.end().status == ErrorStatus.NONE

    addition.check(launch, 1, 2)


def test_a_run_on_a_run_channel_without_a_deadline(target: Target) -> None:
    addition, wire = addition_in_ashmem(), target.wire
    execution = bind(target, addition.request)
    opened = wire.call(wire.execution.OpenRunChannel, execution_pb2.OpenRunChannelRequest(execution=execution))
    channel = wire.take_channel(opened.channel_descriptor_id)

    def run() -> None:
        call = burst_pb2.BurstCall(run=burst_pb2.BurstRun(execution=execution))
        channel.send(call.SerializeToString())
        assert burst_pb2.BurstAnswer.FromString(channel.receive()).status == types_pb2.ERROR_STATUS_NONE

    addition.check(run, 1, 2)


@pytest.mark.parametrize("prepare", [prepare_model, prepare_model_with_config])
@pytest.mark.parametrize("token", [b"", bytes(32)], ids=["no token", "a token"])
def test_a_preparation_without_cache_files_needs_no_token(target: Target, prepare: Prepare, token: bytes) -> None:
    events, error = prepare(target.wire, addition_model(), Arguments(deadline_ns=ABSENT, token=token))
    assert error is None
    assert events[-1].notified.prepared_model > 0


@pytest.mark.parametrize("prepare", [prepare_model, prepare_model_with_config])
def test_a_preparation_with_cache_files_needs_a_token(target: Target, prepare: Prepare) -> None:
    cache = target.wire.link.put([Descriptor(os.memfd_create("cache"))])
    _, error = prepare(target.wire, addition_model(), Arguments(token=b"", cache=cache))
    assert "a cache token of 0 bytes, expected 32" in str(error)


def test_a_preparation_from_a_cache_needs_no_deadline_but_a_token(target: Target) -> None:
    def restore() -> None:
        message = device_pb2.PrepareModelFromCacheRequest()
        _, error = target.wire.events(target.wire.device.PrepareModelFromCache, message)
        assert error is not None
        raise error

    refusal(restore, INVALID, "a cache token of 0 bytes, expected 32")
