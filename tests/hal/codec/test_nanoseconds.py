"""Instants and durations on the wire."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from nnhal.codec import deadline_after, nanoseconds
from nnhal.v1 import (
    backend_pb2,
    buffer_pb2,
    burst_pb2,
    device_pb2,
    execution_pb2,
    fenced_execution_callback_pb2,
    framework_pb2,
    prepared_model_pb2,
    wire_pb2,
)

FILES = (
    backend_pb2,
    buffer_pb2,
    burst_pb2,
    device_pb2,
    execution_pb2,
    fenced_execution_callback_pb2,
    framework_pb2,
    prepared_model_pb2,
    wire_pb2,
)
CALLS = (burst_pb2.BurstCall.DESCRIPTOR, execution_pb2.LaunchCall.DESCRIPTOR, framework_pb2.RunCall.DESCRIPTOR)
LIMIT_OF_TIME = re.compile(r"(deadline|duration|timeout|remaining)\w*_ns$")


def limits_of_time() -> Iterator[FieldDescriptor]:
    """All fields of what clients send that limit how long something may take."""
    waiting: list[Descriptor] = list(CALLS)
    waiting += [
        method.input_type
        for file in FILES
        for service in file.DESCRIPTOR.services_by_name.values()
        for method in service.methods
    ]
    seen: set[str] = set()
    while waiting:
        message = waiting.pop()
        if message.full_name in seen:
            continue
        seen.add(message.full_name)
        for field in message.fields:
            if field.message_type is not None:
                waiting.append(field.message_type)
            elif LIMIT_OF_TIME.search(field.name):
                yield field


def test_every_limit_of_time_in_a_request_may_be_absent() -> None:
    fields = list(limits_of_time())
    assert len(fields) > 20
    assert [field.full_name for field in fields if not field.has_presence] == []


def test_what_is_absent_is_none_and_0_is_0() -> None:
    assert nanoseconds(burst_pb2.BurstRun(execution=1), "deadline_ns") == -1
    assert nanoseconds(burst_pb2.BurstRun(execution=1, deadline_ns=0), "deadline_ns") == 0
    assert nanoseconds(burst_pb2.BurstRun.FromString(b"\x10\x05"), "deadline_ns") == 5


@pytest.mark.parametrize(
    ("remaining_ns", "deadline_ns"), [(-1, -1), (-(2**63), -1), (0, 1000), (5, 1005), (2**63 - 1, 2**63 - 1)]
)
def test_a_time_that_is_left_is_a_deadline_that_a_message_can_hold(remaining_ns: int, deadline_ns: int) -> None:
    assert deadline_after(1000, remaining_ns) == deadline_ns
