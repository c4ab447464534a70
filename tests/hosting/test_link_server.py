from __future__ import annotations

import os
import queue
import socket
import stat
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from nnhal.descriptor import Descriptor
from nnhal.errors import DeadObjectError, HalError, TransportError
from nnhal.link import Link
from nnhal.types import ErrorStatus
from nnhal.v1 import link_pb2 as wire
from nnhal_hosting.descriptors import SessionLimits
from nnhal_hosting.link_server import LinkServer, Session, remove_stale_socket
from tests.support.raw_links import RawLink
from tests.support.waiting import SECONDS

LIMITS = SessionLimits(descriptors=72, sessions=3)
HELLO = wire.LinkRequest(hello=wire.Hello(protocol_version=1)).SerializeToString()
OTHER_USER = 65534
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can start processes of others")


class Served:
    """A link server, with the sessions that it has opened, in order."""

    def __init__(self, path: Path) -> None:
        self.sessions: list[Session] = []
        self.path = path
        self.server = LinkServer(path, self.sessions.append, LIMITS)

    def ended(self, session: Session) -> threading.Event:
        """Return an event that is set when a session and everything that it owns have been released."""
        event = threading.Event()
        session.on_close(event.set)
        return event


GREETER = """
import os, socket, sys
os.setgroups([])
os.setuid(int(sys.argv[3]))
link = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
link.connect(sys.argv[1])
try:
    link.send(bytes.fromhex(sys.argv[2]))
except BrokenPipeError:
    pass  # it has been answered before it has greeted
sys.stdout.buffer.write(link.recv(65536))
"""


@contextmanager
def keeper_of_a_link(uid: int, path: Path) -> Iterator[None]:
    """Have a process of another user keep a link open until the context ends."""
    path.parent.chmod(0o755)
    path.chmod(0o666)
    code = GREETER.replace("sys.stdout", "link.recv(65536)\nprint('open', flush=True)\nsys.stdin.read()\nsys.stdout")
    command = [sys.executable, "-I", "-S", "-c", code, str(path), HELLO.hex(), str(uid)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"open\n"
        try:
            yield
        finally:
            process.kill()


def greeting_by(uid: int, path: Path) -> wire.LinkReply:
    """Return the answer to a Hello of a process of another user; the permissions of the socket allow every user."""
    path.parent.chmod(0o755)
    path.chmod(0o666)
    command = [sys.executable, "-I", "-S", "-c", GREETER, str(path), HELLO.hex(), str(uid)]
    done = subprocess.run(command, stdout=subprocess.PIPE, timeout=SECONDS, check=True)
    return wire.LinkReply.FromString(done.stdout)


@pytest.fixture
def served(short_path: Path) -> Iterator[Served]:
    served = Served(short_path / "link.sock")
    served.server.start()
    yield served
    served.server.close()


def memfd(content: bytes = b"") -> Descriptor:
    descriptor = Descriptor(os.memfd_create("test"))
    os.write(descriptor.fileno(), content)
    return descriptor


def inode(descriptor: Descriptor) -> int:
    return os.fstat(descriptor.fileno()).st_ino


def test_every_link_is_a_separate_session_with_an_unguessable_token(served: Served) -> None:
    with Link(served.path) as first, Link(served.path) as second:
        assert [session.token for session in served.sessions] == [first.session_token, second.session_token]
        assert first.metadata == (("nnhal-session", first.session_token),)
        assert len({first.session_token, second.session_token}) == 2
        assert len(bytes.fromhex(first.session_token)) == 32
        assert first.peer_pid == served.sessions[0].pid == os.getpid()
        assert served.sessions[0].uid == os.getuid()


def test_descriptors_that_are_put_arrive_in_order(served: Served) -> None:
    descriptors = [memfd() for _ in range(35)]
    with Link(served.path) as link:
        numbers = link.put(descriptors)
        table = served.sessions[0].descriptors
        assert [inode(table.get(number)) for number in numbers] == [inode(d) for d in descriptors]


def test_a_descriptor_is_issued_once_and_dropped_when_the_client_closes_it(served: Served) -> None:
    with Link(served.path) as link:
        descriptor = memfd()
        number = link.issue(descriptor)
        assert link.issue(descriptor) == number
        table = served.sessions[0].descriptors
        assert len(table) == 1
        del descriptor
        other = memfd()
        assert link.issue(other) != number
        assert len(table) == 1


def test_a_link_still_works_after_a_refused_request(served: Served) -> None:
    with Link(served.path) as link:
        numbers = link.put([memfd() for _ in range(39)])
        with pytest.raises(
            HalError, match=r"takes 2 descriptors at this process; client .* holds 39 of the 40"
        ) as refusal:
            link.put([memfd(), memfd()])
        assert refusal.value.status == ErrorStatus.RESOURCE_EXHAUSTED_TRANSIENT
        link.drop(numbers)
        link.put([memfd(), memfd()])
        assert len(served.sessions[0].descriptors) == 2


def test_the_end_of_a_link_ends_its_session_and_no_other(served: Served) -> None:
    first, second = Link(served.path), Link(served.path)
    first.put([memfd()])
    ended = served.ended(served.sessions[0])
    first.close()
    assert ended.wait(SECONDS)
    assert served.sessions[0].closed
    assert not served.sessions[1].closed
    second.put([memfd()])
    second.close()


def test_callbacks_run_once_and_last_first_even_when_one_fails() -> None:
    session = Session(LIMITS, pid=1, uid=0)
    order: list[str] = []

    def failing() -> None:
        order.append("failing")
        raise ValueError("what a callback may raise")

    session.on_close(lambda: order.append("first"))
    session.on_close(failing)
    session.on_close(lambda: order.append("last"))
    assert not session.closed
    session.close()
    session.close()
    assert order == ["last", "failing", "first"]
    session.on_close(lambda: order.append("late"))
    assert order[-1] == "late"


def test_a_closing_session_releases_its_descriptors_after_its_callbacks() -> None:
    session = Session(LIMITS, pid=1, uid=0)
    (number,) = session.descriptors.put([memfd()])
    alive = weakref.ref(session.descriptors.get(number))
    seen: list[object] = []
    session.on_close(lambda: seen.append(alive() is not None))
    session.close()
    assert seen == [True]
    assert alive() is None


def test_closing_the_server_ends_every_session_and_removes_the_socket(served: Served) -> None:
    link = Link(served.path)
    served.server.close()
    assert served.sessions[0].closed
    assert link.hung_up
    assert not served.path.exists()
    with pytest.raises(DeadObjectError):
        link.put([memfd()])
    with pytest.raises(DeadObjectError, match=f"no link at {served.path}: No such file"):
        Link(served.path)


def test_closing_the_server_does_not_wait_for_links_without_a_hello(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nnhal_hosting.link_server._HELLO_SECONDS", 1e6)
    with (
        RawLink(served.path) as silent,
        Link(served.path),
    ):  # links are accepted in order: the first is accepted once the second is open
        served.server.close()
        silent.wait_for_end()


def test_a_server_that_was_not_started_can_be_closed(short_path: Path) -> None:
    LinkServer(short_path / "link.sock", lambda _: None).close()
    assert not (short_path / "link.sock").exists()


@needs_root
def test_a_link_of_another_user_is_refused_unless_the_user_is_allowed(served: Served, short_path: Path) -> None:
    refusal = greeting_by(OTHER_USER, served.path).refusal
    assert refusal.message == f"user {OTHER_USER} may not open links here"
    assert not served.sessions
    opened: queue.Queue[Session] = queue.Queue()
    server = LinkServer(short_path / "open.sock", opened.put, LIMITS, allowed_uids=[OTHER_USER])
    server.start()
    try:
        assert greeting_by(OTHER_USER, short_path / "open.sock").welcome.session_token
        assert opened.get(timeout=SECONDS).uid == OTHER_USER
    finally:
        server.close()


def test_a_process_with_links_leaves_the_last_ones_to_others(short_path: Path) -> None:
    path = short_path / "open.sock"
    server = LinkServer(path, lambda _: None, SessionLimits(sessions=16), (OTHER_USER,))
    server.start()
    with ExitStack() as stack:
        stack.callback(server.close)
        for _ in range(14):
            stack.callback(Link(path).close)
        for _ in range(3):
            with pytest.raises(TransportError, match=f"process {os.getpid()} has 14 links, and the last 2 of 16"):
                Link(path)
        assert greeting_by(os.geteuid(), path).welcome.session_token


def test_links_that_only_operators_may_have_take_no_place_of_others(short_path: Path) -> None:
    path = short_path / "open.sock"
    server = LinkServer(path, lambda _: None, SessionLimits(sessions=16), admin_keys=("k" * 16,))
    server.start()
    with ExitStack() as stack:
        stack.callback(server.close)
        for _ in range(30):  # all of them silent
            stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)).connect(str(path))
        assert greeting_by(os.geteuid(), path).welcome.session_token


@needs_root
def test_another_user_has_half_of_the_links_at_most(short_path: Path) -> None:
    path = short_path / "open.sock"
    server = LinkServer(path, lambda _: None, SessionLimits(sessions=4), (OTHER_USER,))
    server.start()
    with ExitStack() as stack:
        stack.callback(server.close)
        for _ in range(2):
            stack.enter_context(keeper_of_a_link(OTHER_USER, path))
        refusal = greeting_by(OTHER_USER, path).refusal
        assert refusal.message == f"user {OTHER_USER} has 2 links, which is as many as another user may have"
        assert greeting_by(os.geteuid(), path).welcome.session_token


def test_one_link_too_many_is_refused_with_the_reason(served: Served) -> None:
    links = [Link(served.path) for _ in range(3)]
    for _ in range(20):  # the refusal may come before or after the Hello is sent
        with pytest.raises(TransportError, match="3 links are open, which is the limit") as refusal:
            Link(served.path)
        assert not isinstance(refusal.value, DeadObjectError)
    assert len(served.sessions) == 3
    for link in links:
        link.close()


def test_a_callback_for_new_sessions_runs_before_the_client_is_welcomed(short_path: Path) -> None:
    owned: list[int] = []

    def opened(session: Session) -> None:
        owned.append(session.descriptors.offer(memfd(b"ready")))

    server = LinkServer(short_path / "link.sock", opened)
    server.start()
    with Link(short_path / "link.sock") as link:
        assert os.pread(link.take(owned[0]).fileno(), 10, 0) == b"ready"
    server.close()


def test_a_stale_socket_is_replaced_and_one_in_use_is_not(served: Served, short_path: Path) -> None:
    stale = short_path / "stale.sock"
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(str(stale))
    remove_stale_socket(stale, socket.SOCK_SEQPACKET)
    assert not stale.exists()
    with pytest.raises(FileExistsError, match="another process is serving at"):
        LinkServer(served.path, lambda _: None)
    with Link(served.path):
        assert stat.S_ISSOCK(served.path.stat().st_mode)
