"""Listeners of a process that are asked whether they answer, over real sockets."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from nnhal_service import listener_watch
from nnhal_service.listener_watch import ListenerWatch, asks_grpc, asks_http
from nnhal_service.serving import ServingLoop
from tests.support.v2 import FakeModel
from tests.support.v2_front import serving


@pytest.fixture
def loop() -> Iterator[ServingLoop]:
    with ServingLoop(1) as running:
        yield running


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """A port at which somebody listens and never answers."""
    monkeypatch.setattr(listener_watch, "_PATIENCE_SECONDS", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening.getsockname()[1]


def test_the_loop_is_told_of_a_listener_that_is_silent(loop: ServingLoop, silent: int) -> None:
    told = threading.Event()
    loop.on_server_end = told.set
    with ListenerWatch(loop, {"http": asks_http("127.0.0.1", silent, False)}, pause=0.01):
        assert told.wait(60)


def test_a_listener_is_not_blamed_while_the_loop_itself_is_busy(loop: ServingLoop, silent: int) -> None:
    told, go_on, asked = threading.Event(), threading.Event(), threading.Semaphore(0)
    loop.on_server_end = told.set
    ask_port = asks_http("127.0.0.1", silent, False)

    def ask() -> None:
        asked.release()
        ask_port()

    loop.asyncio.call_soon_threadsafe(go_on.wait)
    try:
        with ListenerWatch(loop, {"http": ask}, pause=0.01):
            for _ in range(6):
                assert asked.acquire(timeout=60)
            assert not told.is_set()
    finally:
        go_on.set()


def test_a_front_answers(short_path: Path) -> None:
    with serving(short_path, FakeModel()) as served:
        ask = asks_grpc(served.front.addresses[0])
        ask()
    with pytest.raises(OSError, match="no answer"):
        ask()
