"""Regions of clients in their own processes, which are found by their TCP connections."""

from __future__ import annotations

import json
import os
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

import pytest

from nnhal_hosting.access import peer_name
from nnhal_service.serving.errors import ErrorKind, ServingError
from nnhal_service.v2.backend import SharedRegion
from nnhal_service.v2.shared_memory import SystemSharedMemory
from nnhal_service.v2.shared_memory.owners import Owners
from tests.support.other_users import GUEST, OTHER_USER, as_other_user, needs_root
from tests.support.waiting import wait_until

_CLIENT = """
import socket, sys
kept = [socket.create_connection(("127.0.0.1", int(sys.argv[1]))) for _ in range(int(sys.argv[2]))]
sys.stdin.read()
"""
_SERVER = """
import encodings.idna, json, os, socket, sys
from pathlib import Path
from nnhal_hosting.access import peer_name
from nnhal_service.serving.errors import ServingError
from nnhal_service.v2.backend import SharedRegion
from nnhal_service.v2.shared_memory import SystemSharedMemory

server = socket.create_server(("127.0.0.1", 0))
server.settimeout(30)
own, their = os.pipe()
peers = {}
for uid in map(int, sys.argv[1].split(",")):
    if not os.fork():
        os.setgroups([]), os.setgid(uid), os.setuid(uid)
        client = socket.create_connection(server.getsockname())
        os.close(their)
        os.read(own, 1)
        os._exit(0)
    connection, address = server.accept()
    peers[uid] = connection, peer_name(address)
memory = SystemSharedMemory(lambda: [server.getsockname()[1]])
"""
"""A server, and clients of other users that end with it. Then it is given up to be root."""
_REGISTER = """
found = {}
for name in json.loads(sys.argv[2]):
    path = Path("/dev/shm", name)
    for uid, (connection, peer) in peers.items():
        try:
            memory.register(SharedRegion("r", name, 0, 4), peer)
            memory.write("r", 0, b"done", peer)
            memory.unregister("r", peer)
            said = ""
        except ServingError as error:
            said = error.message
        found.setdefault(name, {})[uid] = said
memory.close()
print(json.dumps(found))
"""


class Client:
    """A process with connections; ``peers`` are what a server calls them."""

    def __init__(self, listener: socket.socket, connections: int = 1) -> None:
        port = str(listener.getsockname()[1])
        self.process = subprocess.Popen([sys.executable, "-c", _CLIENT, port, str(connections)], stdin=subprocess.PIPE)
        self._accepted = [listener.accept() for _ in range(connections)]
        self.peers = [peer_name(address[:2]) for _, address in self._accepted]
        self.peer = self.peers[0]

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        assert self.process.stdin is not None
        self.process.stdin.close()
        for connection, _ in self._accepted:
            connection.close()


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


@pytest.fixture
def memory(listener: socket.socket) -> Iterator[SystemSharedMemory]:
    registry = SystemSharedMemory(lambda: [listener.getsockname()[1]])
    yield registry
    registry.close()


@pytest.fixture
def file() -> Iterator[Path]:
    path = Path(f"/dev/shm/nnhal-test-{os.getpid()}")
    path.write_bytes(bytes(range(256)) * 16)
    yield path
    path.unlink(missing_ok=True)


def region(file: Path, name: str = "r", offset: int = 0, byte_size: int = 4096) -> SharedRegion:
    return SharedRegion(name, f"/{file.name}", offset, byte_size)


def refusal(call: object, *arguments: object) -> ServingError:
    assert callable(call)
    with pytest.raises(ServingError) as caught:
        call(*arguments)
    return caught.value


def open_files(path: Path) -> int:
    return sum(str(os.path.realpath(entry)) == str(path) for entry in Path("/proc/self/fd").iterdir())


def test_a_region_is_read_and_written_as_a_file(
    memory: SystemSharedMemory, listener: socket.socket, file: Path
) -> None:
    with Client(listener) as client:
        memory.register(region(file, offset=16, byte_size=64), client.peer)
        assert bytes(memory.read("r", 4, 8, client.peer)) == bytes(range(20, 28))
        memory.write("r", 60, b"abcd", client.peer)
        assert file.read_bytes()[74:82] == bytes([74, 75]) + b"abcd" + bytes([80, 81])
        assert str(file) not in Path("/proc/self/maps").read_text()


def test_all_connections_of_a_process_share_its_regions(
    memory: SystemSharedMemory, listener: socket.socket, file: Path
) -> None:
    with Client(listener, connections=2) as client:
        memory.register(region(file), client.peers[0])
        assert memory.status("r", client.peers[1]) == [region(file)]


def test_no_client_reaches_the_regions_of_another(
    memory: SystemSharedMemory, listener: socket.socket, file: Path
) -> None:
    with Client(listener) as owner, Client(listener) as other:
        memory.register(region(file), owner.peer)
        assert memory.status("", other.peer) == []
        assert refusal(memory.status, "r", other.peer).kind == ErrorKind.NOT_FOUND
        assert refusal(memory.read, "r", 0, 1, other.peer).kind == ErrorKind.NOT_FOUND
        assert refusal(memory.write, "r", 0, b"x", other.peer).kind == ErrorKind.NOT_FOUND
        taken = refusal(memory.register, region(file, "mine"), other.peer)
        absent = refusal(memory.register, SharedRegion("mine", f"{file.name}-none", 0, 1), other.peer)
        assert taken.kind == absent.kind == ErrorKind.INVALID_ARGUMENT
        assert taken.message == absent.message.replace(f"{file.name}-none", f"/{file.name}")
        memory.unregister("r", other.peer)
        memory.unregister("", other.peer)
        assert memory.status("r", owner.peer) == [region(file)]


def test_a_name_is_free_for_every_client(memory: SystemSharedMemory, listener: socket.socket, file: Path) -> None:
    second = file.with_name(file.name + "-second")
    second.write_bytes(bytes(16))
    try:
        with Client(listener) as one, Client(listener) as other:
            memory.register(region(file), one.peer)
            memory.register(region(second, byte_size=16), other.peer)
            assert memory.status("r", other.peer) == [region(second, byte_size=16)]
            assert refusal(memory.register, region(file), one.peer).kind == ErrorKind.ALREADY_EXISTS
    finally:
        second.unlink()


def test_a_file_that_was_shortened_is_an_error_for_its_client(
    memory: SystemSharedMemory, listener: socket.socket, file: Path
) -> None:
    with Client(listener) as client:
        memory.register(region(file), client.peer)
        os.truncate(file, 100)
        assert bytes(memory.read("r", 0, 100, client.peer)) == bytes(range(100))
        for error in (
            refusal(memory.read, "r", 50, 100, client.peer),
            refusal(memory.write, "r", 50, bytes(100), client.peer),
        ):
            assert error.kind == ErrorKind.INVALID_ARGUMENT
            assert "shorter than when it was registered" in error.message
        assert file.stat().st_size == 100


@pytest.mark.parametrize("killed", [1, 6])
def test_the_regions_of_killed_clients_are_gone(
    memory: SystemSharedMemory, listener: socket.socket, file: Path, killed: int
) -> None:
    with ExitStack() as stack:
        survivor = stack.enter_context(Client(listener))
        clients = [stack.enter_context(Client(listener)) for _ in range(killed)]
        files = [file.with_name(f"{file.name}-{number}") for number in range(killed)]
        for path, client in zip(files, clients, strict=True):
            path.write_bytes(bytes(64))
            stack.callback(path.unlink)
            memory.register(region(path, byte_size=64), client.peer)
        memory.register(region(file), survivor.peer)
        for client in clients:
            client.kill()
        wait_until(lambda: not any(open_files(path) for path in files), "the files are closed")
        assert memory.status("r", survivor.peer) == [region(file)]


def test_a_connection_whose_process_is_hidden_owns_until_it_is_closed(
    memory: SystemSharedMemory, listener: socket.socket, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if the client were in another PID namespace."""
    monkeypatch.setattr("nnhal_service.v2.shared_memory.peers._holder", lambda *_: None)
    with socket.create_connection(listener.getsockname()) as connection:
        accepted, address = listener.accept()
        with accepted:
            peer = peer_name(address[:2])
            memory.register(region(file), peer)
            assert memory.status("r", peer) == [region(file)]
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.close()  # with a reset, so that the port can be used again at once
        wait_until(lambda: not open_files(file), "the file is closed")
        with socket.socket() as other:
            other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            other.bind(address)
            other.connect(listener.getsockname())
            assert memory.status("", peer) == []


@needs_root
@pytest.mark.parametrize("server", [0, GUEST, 41234])
def test_a_client_has_the_files_of_its_user_whoever_runs_the_server(server: int) -> None:
    """A server that is not root can see whose a connection is, and not which process of that user has it."""
    clients = {server, OTHER_USER, 51234}
    modes = {
        (owner, mode): f"nnhal-test-{os.getpid()}-{owner}-{mode:o}" for owner in clients for mode in (0o600, 0o666)
    }
    try:
        for (owner, mode), name in modes.items():
            path = Path("/dev/shm", name)
            path.write_bytes(bytes(4))
            os.chown(path, owner, owner)
            path.chmod(mode)
        arguments = ",".join(map(str, clients)), json.dumps(list(modes.values()))
        found = as_other_user(_SERVER, _REGISTER, *arguments, uid=server)
        for (owner, mode), name in modes.items():
            may_open = server in (0, owner) or mode == 0o666
            for client in clients:
                may_use = may_open and (client in (0, owner) or mode == 0o666)
                said = found[name][str(client)]
                assert said.startswith("Unable to open") != may_use, (owner, oct(mode), client, said)
            assert (Path("/dev/shm", name).read_bytes() == b"done") == may_open
    finally:
        for name in modes.values():
            Path("/dev/shm", name).unlink(missing_ok=True)


@pytest.mark.parametrize("peer", ["ipv4:127.0.0.1:1", "ipv4:10.9.8.7:40000", "ipv6:[::1]:40000", "ipv4:127.0.0.1:x"])
def test_a_client_whose_user_is_unknown_has_no_region(memory: SystemSharedMemory, file: Path, peer: str) -> None:
    """As one of another host or network namespace, behind a forwarded port, or one that has closed its connection."""
    file.chmod(0o666)
    for call in (memory.register, memory.read, memory.status):
        arguments = {memory.register: (region(file),), memory.read: ("r", 0, 1), memory.status: ("",)}[call]
        error = refusal(call, *arguments, peer)
        assert error.kind == ErrorKind.UNSUPPORTED
    memory.unregister("", peer)
    assert open_files(file) == 0


def test_who_has_closed_its_connection_registers_nothing(
    memory: SystemSharedMemory, listener: socket.socket, file: Path
) -> None:
    with socket.create_connection(listener.getsockname()) as connection:
        accepted, address = listener.accept()
        with accepted:
            connection.close()
            assert accepted.recv(1) == b""
            error = refusal(memory.register, region(file), peer_name(address[:2]))
            assert "which user of this host has opened the connection" in error.message


def test_a_port_that_another_connection_uses_too_is_not_its_owners(
    memory: SystemSharedMemory, listener: socket.socket, file: Path
) -> None:
    """One port may have connections to several servers, each of another user."""
    with socket.create_server(("127.0.0.1", 0)) as other, socket.socket() as first, socket.socket() as client:
        for connection in (first, client):
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        first.bind(("127.0.0.1", 0))
        first.connect(other.getsockname())
        peer = peer_name(first.getsockname())
        assert refusal(memory.register, region(file), peer).kind == ErrorKind.UNSUPPORTED
        client.bind(first.getsockname())
        client.connect(listener.getsockname())
        memory.register(region(file), peer)
        assert memory.status("", peer) == [region(file)]


def test_an_address_of_ipv4_within_ipv6_is_its_clients(file: Path) -> None:
    with socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True) as server:
        memory = SystemSharedMemory(lambda: [server.getsockname()[1]])
        with socket.create_connection(("127.0.0.1", server.getsockname()[1])):
            accepted, address = server.accept()
            with accepted:
                assert address[0] == "::ffff:127.0.0.1"
                for peer in (peer_name(address[:2]), f"ipv4:127.0.0.1:{address[1]}"):
                    memory.register(region(file), peer)
                    memory.unregister("", peer)
        memory.close()


def test_a_region_that_is_in_use_is_closed_when_the_use_has_ended(
    memory: SystemSharedMemory, listener: socket.socket, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entered, proceed = threading.Event(), threading.Event()
    real = os.preadv

    def held(fd: int, buffers: list[memoryview], offset: int) -> int:
        entered.set()
        proceed.wait()
        return real(fd, buffers, offset)

    with Client(listener) as client:
        memory.register(region(file), client.peer)
        monkeypatch.setattr(os, "preadv", held)
        found: list[bytes] = []
        reader = threading.Thread(target=lambda: found.append(bytes(memory.read("r", 0, 4, client.peer))))
        reader.start()
        entered.wait()
        memory.unregister("r", client.peer)
        assert memory.status("", client.peer) == []
        assert open_files(file) == 1
        proceed.set()
        reader.join()
        assert found == [bytes(range(4))]
        assert open_files(file) == 0


@pytest.mark.parametrize(
    "key", ["", "/", "..", "/../etc/passwd", "a/b", "nul\0", "triton_python_backend_shm_region_1", "x" * 300]
)
def test_a_key_that_may_not_be_opened(memory: SystemSharedMemory, listener: socket.socket, key: str) -> None:
    with Client(listener) as client:
        error = refusal(memory.register, SharedRegion("r", key, 0, 1), client.peer)
        assert error.kind == ErrorKind.INVALID_ARGUMENT
        assert error.message.startswith(f"Unable to open shared memory region: '{key}'")


def test_a_link_out_of_the_directory_is_refused(
    memory: SystemSharedMemory, listener: socket.socket, file: Path, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(bytes(16))
    link = file.with_name(file.name + "-link")
    link.symlink_to(secret)
    try:
        with Client(listener) as client:
            assert refusal(memory.register, region(link, byte_size=16), client.peer).kind == ErrorKind.INVALID_ARGUMENT
    finally:
        link.unlink()


@pytest.mark.parametrize(("offset", "byte_size"), [(0, 4097), (4096, 1), (0, 0), (1 << 62, 1 << 62)])
def test_a_region_lies_within_its_file(
    memory: SystemSharedMemory, listener: socket.socket, file: Path, offset: int, byte_size: int
) -> None:
    with Client(listener) as client:
        error = refusal(memory.register, region(file, offset=offset, byte_size=byte_size), client.peer)
        assert error.kind == ErrorKind.INVALID_ARGUMENT
        assert "Invalid offset + byte size" in error.message
        assert open_files(file) == 0


def test_one_client_may_not_take_all_descriptors(listener: socket.socket, file: Path) -> None:
    registry = SystemSharedMemory(lambda: [listener.getsockname()[1]], max_regions=2)
    with Client(listener) as client:
        registry.register(region(file, "a"), client.peer)
        registry.register(region(file, "b"), client.peer)
        assert refusal(registry.register, region(file, "c"), client.peer).kind == ErrorKind.RESOURCE_EXHAUSTED
        registry.unregister("", client.peer)
        registry.register(region(file, "c"), client.peer)
    registry.close()
    assert open_files(file) == 0


def test_clients_of_a_unix_socket_cannot_be_told_apart(memory: SystemSharedMemory, file: Path) -> None:
    assert refusal(memory.register, region(file), "unix:").kind == ErrorKind.UNSUPPORTED


def test_connections_that_have_closed_are_not_remembered(listener: socket.socket) -> None:
    owners = Owners(lambda _: None, lambda: [listener.getsockname()[1]])
    try:
        with Client(listener) as lasting:
            for _ in range(3):
                with Client(listener, connections=100) as client:
                    assert {owners.of(peer).pid for peer in client.peers} == {client.process.pid}
            assert owners.of(lasting.peer).pid == lasting.process.pid
            assert owners.remembered <= 2 * 100 + 1
    finally:
        owners.close()


def test_a_client_has_no_more_regions_than_it_may(listener: socket.socket, file: Path) -> None:
    memory = SystemSharedMemory(lambda: [listener.getsockname()[1]], 2)
    with Client(listener) as client, Client(listener) as other:
        for name in ("a", "b"):
            memory.register(region(file, name), client.peer)
        refused = refusal(memory.register, region(file, "c"), client.peer)
        assert (refused.kind, refused.message) == (
            ErrorKind.RESOURCE_EXHAUSTED,
            "2 shared memory regions are registered, expected at most 2",
        )
        memory.unregister("a", client.peer)
        memory.register(region(file, "c"), client.peer)
        assert not memory.status("", other.peer)
    memory.close()
