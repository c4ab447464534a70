"""Clients that misuse the link: they lose their link, and no other client is affected."""

from __future__ import annotations

import os
import resource
import select
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from nnhal.descriptor import Descriptor
from nnhal.endpoint import Endpoint
from nnhal.errors import TransportError
from nnhal.link import Link
from nnhal.remote import RemoteDevice
from nnhal.types import ErrorStatus
from nnhal.v1 import link_pb2 as wire
from nnhal_hosting.descriptors import SessionLimits
from tests.support.bystanders import Bystander, bystander
from tests.support.processes import device_process
from tests.support.raw_links import RawLink
from tests.support.resources import resources_of
from tests.support.waiting import settled, wait_until

LIMITS = SessionLimits()
FULL = ErrorStatus.RESOURCE_EXHAUSTED_TRANSIENT


@pytest.fixture(autouse=True)
def unharmed(cpu_ref: Endpoint) -> Iterator[Bystander]:
    """Keep another session executing during each test, and check that the process then holds no more than before."""
    with bystander(cpu_ref) as other:
        device = other.device
        before = settled(lambda: (device.usage().sessions, device.usage().descriptors))  # those of others may be ending
        resources = resources_of(device.pid)
        yield other
        wait_until(lambda: (device.usage().sessions, device.usage().descriptors) == before, "sessions are released")
        wait_until(lambda: resources_of(device.pid).within(resources), "descriptors and mappings are released")


class Pipe:
    """A pipe whose writing end is given away; end of file on the other end shows that it is closed everywhere."""

    def __init__(self) -> None:
        reader, writer = os.pipe()
        self.reader, self.writer = Descriptor(reader), Descriptor(writer)

    def wait_until_released(self) -> None:
        """Close the writing end here, and wait until it is closed everywhere."""
        self.writer.close()
        assert select.select([self.reader.fileno()], [], [], 30)[0], "the device still holds a descriptor"
        assert os.read(self.reader.fileno(), 1) == b""


def put(count: int) -> bytes:
    return wire.LinkRequest(put=wire.Put(count=count)).SerializeToString()


HELLO = wire.LinkRequest(hello=wire.Hello(protocol_version=1)).SerializeToString()
DROP = wire.LinkRequest(drop=wire.Drop(descriptor_ids=[1])).SerializeToString()


@pytest.mark.slow
def test_silent_links_and_links_that_never_read_end(cpu_ref: Endpoint, unharmed: Bystander) -> None:
    pipe, runs = Pipe(), unharmed.runs
    with RawLink(cpu_ref.link) as silent, RawLink(cpu_ref.link) as flooding, RemoteDevice(cpu_ref, "test") as device:
        flooding.hello()
        flooding.ask(wire.LinkRequest(put=wire.Put(count=1)), [pipe.writer.fileno()])
        flooding.flood(DROP)
        assert unharmed.runs > runs
        pipe.wait_until_released()
        Bystander(device).run()
        last = silent.wait_for_end()
        assert last is not None
        assert (last.refusal.message, last.refusal.fatal) == ("no Hello came within 10 s", True)


def test_the_number_of_descriptors_of_a_client_is_limited(cpu_ref: Endpoint) -> None:
    pipe = Pipe()
    per_message = LIMITS.descriptors_per_message
    with RawLink(cpu_ref.link) as link:
        limit = link.hello().welcome.max_descriptors_per_session
        numbers: list[int] = []
        for count in (per_message, 1):
            message = wire.LinkRequest(put=wire.Put(count=count))
            while put := link.ask(message, [pipe.writer.fileno()] * count).put.descriptor_ids:
                numbers += put
        assert limit - 2 * per_message < len(set(numbers)) == len(numbers) <= limit
        one = wire.LinkRequest(put=wire.Put(count=1))
        for _ in range(3):
            refused = link.ask(one, [pipe.writer.fileno()]).refusal
            assert (ErrorStatus(refused.status), refused.fatal) == (FULL, False)
            assert f"(pid {os.getpid()}, uid {os.getuid()}) holds " in refused.message
            assert "(NNHAL_DEVICE_MAX_DESCRIPTORS)" in refused.message
        link.ask(wire.LinkRequest(drop=wire.Drop(descriptor_ids=[numbers[7], 10**9, numbers[7]])))
        assert len(link.ask(one, [pipe.writer.fileno()]).put.descriptor_ids) == 1
    pipe.wait_until_released()


def test_links_beyond_the_limit_are_refused_until_one_closes(short_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NNHAL_DEVICE_MAX_SESSIONS", "3")
    with device_process("cpu_ref", short_path) as (_, endpoint), bystander(endpoint), Link(endpoint.link):
        with Link(endpoint.link):
            for _ in range(5):
                with pytest.raises(TransportError, match="3 links are open, which is the limit"):
                    Link(endpoint.link)
        wait_until(lambda: can_open(endpoint), "the place of the closed link is free")


def can_open(endpoint: Endpoint) -> bool:
    try:
        Link(endpoint.link).close()
    except TransportError:
        return False
    return True


def test_a_process_without_free_descriptors_goes_on_and_accepts_links_again_later(short_path: Path) -> None:
    with (
        device_process("cpu_ref", short_path) as (process, endpoint),
        bystander(endpoint) as other,
        ExitStack() as stack,
    ):
        wait_until(lambda: other.runs > 0, "the session runs, and what its runs need has been imported")
        limits = resource.prlimit(process.pid, resource.RLIMIT_NOFILE)
        few = free_descriptors(process.pid, limits[0])[4]
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (few, limits[1]))
        links = [stack.enter_context(RawLink(endpoint.link)) for _ in range(12)]
        for link in links:
            link.send(HELLO)
        wait_until(lambda: not free_descriptors(process.pid, few), "every descriptor is in use")
        runs = other.runs
        wait_until(lambda: other.runs > runs, "the session goes on")
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, limits)
        for link in links:
            reply = link.receive()
            assert reply is not None
            assert reply.welcome.session_token


def free_descriptors(pid: int, limit: int) -> list[int]:
    """Return the descriptor numbers below a limit that a process does not use."""
    return sorted(set(range(limit)) - {int(entry.name) for entry in Path(f"/proc/{pid}/fd").iterdir()})


MODEST = """
import os, sys
from pathlib import Path
from nnhal.descriptor import Descriptor
from nnhal.link import Link
print(len(Link(Path(sys.argv[1])).put([Descriptor(os.memfd_create("modest")) for _ in range(16)])))
"""


def test_who_names_many_clients_gets_no_more_and_leaves_some_to_other_processes(
    short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NNHAL_DEVICE_MAX_DESCRIPTORS", "256")
    pipe = Pipe()
    with device_process("null", short_path) as (_, endpoint), RawLink(endpoint.link) as link:
        assert link.hello().welcome.max_descriptors_per_session == 144
        taken = 0
        for number in range(400):
            named = wire.OnBehalfOf(tenants=[wire.Tenant(id=str(number), title=f"client {number}")])
            put = wire.LinkRequest(put=wire.Put(count=1, on_behalf_of=named))
            taken += len(link.ask(put, [pipe.writer.fileno()]).put.descriptor_ids)
        assert taken <= 144
        command = [sys.executable, "-c", MODEST, str(endpoint.link)]
        assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "16\n"
