"""Regions of clients in their own processes, which are found by their TCP connections."""

from __future__ import annotations

import os
import socket
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
from nnhal_service.v2.shared_memory.owners import Owners, RegionOwner
from tests.support.waiting import wait_until

_CLIENT = """
import socket, sys
kept = [socket.create_connection(("127.0.0.1", int(sys.argv[1]))) for _ in range(int(sys.argv[2]))]
sys.stdin.read()
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
def memory() -> Iterator[SystemSharedMemory]:
    registry = SystemSharedMemory()
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
    """How many descriptors this process has of a file."""
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
    """As if the client were in another container."""
    monkeypatch.setattr("nnhal_service.v2.shared_memory.owners.process_at", lambda _: None)
    with socket.create_connection(listener.getsockname()) as connection:
        accepted, address = listener.accept()
        with accepted:
            peer = peer_name(address[:2])
            memory.register(region(file), peer)
            assert memory.status("r", peer) == [region(file)]
            connection.close()
        wait_until(lambda: not open_files(file), "the file is closed")


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


def test_another_users_file_is_refused(
    memory: SystemSharedMemory, listener: socket.socket, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.chmod(0o600)
    with Client(listener) as client:
        monkeypatch.setattr(
            "nnhal_service.v2.shared_memory.owners.Owners.of", lambda *_: RegionOwner(client.process.pid, "", 65534)
        )
        assert refusal(memory.register, region(file), client.peer).kind == ErrorKind.INVALID_ARGUMENT


def test_one_client_may_not_take_all_descriptors(listener: socket.socket, file: Path) -> None:
    registry = SystemSharedMemory(max_regions=2)
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
    owners = Owners(lambda _: None)
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
    memory = SystemSharedMemory(2)
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
