"""Entries of a compilation cache that somebody who knows the token has tampered with."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from nnhal.types import NO_DEADLINE
from nnhal.v1 import device_pb2
from nnhal_devices.cpu_ref.driver import CpuRef
from nnhal_devices.driver import PrepareOptions
from nnhal_devices.host.sessions import cache
from nnhal_devices.host.sessions.cache import EntryLengths, save
from nnhal_devices.host.sessions.hosted_device import HostedDevice
from nnhal_devices.host.sessions.models import resolve
from nnhal_devices.host.settings import DeviceSettings
from tests.support.caching import Entry, convolutional_network, entry_in, opened
from tests.support.device_trials import Nobody
from tests.support.refusals import FAILURE, refusal

HEADER_BYTES = 72


def forged(entry: Entry, change: Callable[[device_pb2.PrepareModelRequest], object]) -> None:
    """Write an entry that has the right digest, and a model that was tampered with."""
    structure, constants = entry.model[0].read_bytes()[HEADER_BYTES:], entry.data[0].read_bytes()
    message = device_pb2.PrepareModelRequest.FromString(structure)
    changed = change(message)
    content = changed if isinstance(changed, bytes) else message.SerializeToString()
    lengths = EntryLengths(len(content), 0, len(constants))
    digest = cache._digest(entry.token, CpuRef.version, lengths, [[content], [constants]])
    header = entry.model[0].read_bytes()[:16] + digest + struct.pack("<QQQ", *lengths)
    entry.model[0].write_bytes(header + content)


def no_message(message: device_pb2.PrepareModelRequest) -> bytes:
    return b"\xff" * 40


def nothing_at_all(message: device_pb2.PrepareModelRequest) -> bytes:
    return b""


def a_preference_of_99(message: device_pb2.PrepareModelRequest) -> None:
    message.preference = 99  # type: ignore[assignment]


def a_priority_below_low(message: device_pb2.PrepareModelRequest) -> None:
    message.priority = -1  # type: ignore[assignment]


def constants_beyond_the_end(message: device_pb2.PrepareModelRequest) -> None:
    for operand in message.model.main.operands:
        operand.location.offset += 1 << 40


def an_output_that_is_not_there(message: device_pb2.PrepareModelRequest) -> None:
    message.model.main.output_indexes[0] = 12345


def an_operation_of_no_extension(message: device_pb2.PrepareModelRequest) -> None:
    message.model.main.operations[0].type = 7 << 16  # type: ignore[assignment]


def a_pool(message: device_pb2.PrepareModelRequest) -> None:
    message.model.pools.add().ashmem.descriptor_id = 1


def a_pool_of_no_kind(message: device_pb2.PrepareModelRequest) -> None:
    message.model.pools.add()


def a_buffer_without_descriptors(message: device_pb2.PrepareModelRequest) -> None:
    message.model.pools.add().hardware_buffer.SetInParent()


@pytest.mark.parametrize(
    "change",
    [
        no_message,
        nothing_at_all,
        a_preference_of_99,
        a_priority_below_low,
        constants_beyond_the_end,
        an_output_that_is_not_there,
        an_operation_of_no_extension,
        a_pool,
        a_pool_of_no_kind,
        a_buffer_without_descriptors,
    ],
)
def test_a_forged_entry_is_checked_like_any_model(
    tmp_path: Path, change: Callable[[device_pb2.PrepareModelRequest], object]
) -> None:
    entry, device = entry_in(tmp_path), HostedDevice(CpuRef(), DeviceSettings())
    save(opened(entry), CpuRef.version, resolve(convolutional_network().model), PrepareOptions())
    forged(entry, device_pb2.PrepareModelRequest.SerializeToString)
    device.launch_from_cache(opened(entry), NO_DEADLINE, Nobody())()
    forged(entry, change)
    refusal(device.launch_from_cache(opened(entry), NO_DEADLINE, Nobody()), FAILURE)
