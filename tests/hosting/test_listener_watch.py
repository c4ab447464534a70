"""Listeners of a process that are asked whether they answer, over real sockets."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from nnhal_hosting import listener_watch
from nnhal_hosting.asking import Silent, Unhealthy
from nnhal_hosting.listener_watch import Ask, ListenerWatch, asks_grpc, asks_http, asks_link
from tests.support.waiting import SECONDS


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """An address at which somebody listens and never answers."""
    monkeypatch.setattr(listener_watch, "_PATIENCE_SECONDS", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"127.0.0.1:{listening.getsockname()[1]}"


class Asked:
    """An ask that counts, and answers or not."""

    def __init__(self, ask: Ask) -> None:
        self.asked = threading.Semaphore(0)
        self._ask = ask

    def __call__(self, seconds: float) -> None:
        self.asked.release()
        self._ask(seconds)

    def await_times(self, count: int) -> None:
        for _ in range(count):
            assert self.asked.acquire(timeout=60)


@pytest.mark.parametrize("has_tls", [False, True], ids=["plain", "TLS"])
@pytest.mark.parametrize("asks", [asks_grpc, asks_http])
def test_a_listener_that_is_silent_is_told_by_its_name(asks: type, has_tls: bool, silent: str) -> None:
    told: list[str] = []
    ended = threading.Event()

    def tell(name: str) -> None:
        told.append(name)
        ended.set()

    watch = ListenerWatch(tell, pause=0.01)
    watch.add("answering", lambda _: None)
    watch.add("silent", asks(silent, has_tls))
    with watch:
        assert ended.wait(300)  # on a busy machine a silence counts for little
    assert told == ["silent"]


def test_a_listener_is_not_blamed_while_what_serves_it_does_not_get_its_turn(silent: str) -> None:
    told = threading.Event()
    ask = Asked(asks_http(silent, False))
    watch = ListenerWatch(lambda _: told.set(), lambda: False, pause=0.01)
    watch.add("http", ask)
    with watch:
        ask.await_times(6)
        assert not told.is_set()


def test_a_listener_is_not_blamed_while_the_process_is_debugged(silent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener_watch, "is_traced", lambda _: True)
    told = threading.Event()
    ask = Asked(asks_http(silent, False))
    watch = ListenerWatch(lambda _: told.set(), pause=0.01)
    watch.add("http", ask)
    with watch:
        ask.await_times(6)
        assert not told.is_set()


def test_an_answer_now_and_then_is_enough(silent: str) -> None:
    told, asked = threading.Event(), 0
    refuse = asks_http(silent, False)

    def every_fourth(seconds: float) -> None:
        nonlocal asked
        asked += 1
        if asked % 4:
            refuse(seconds)

    ask = Asked(every_fourth)
    watch = ListenerWatch(lambda _: told.set(), pause=0.01)
    watch.add("http", ask)
    with watch:
        ask.await_times(12)
        assert not told.is_set()


def test_where_nobody_listens_is_silence(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    for ask in (
        asks_grpc(f"127.0.0.1:{port}"),
        asks_http(f"127.0.0.1:{port}", True),
        asks_link(tmp_path / "link.sock"),
    ):
        with pytest.raises(Silent):
            ask(SECONDS)


def test_a_listener_that_closes_each_connection_has_answered() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def close_all() -> None:
            for _ in range(3):
                listening.accept()[0].close()

        threading.Thread(target=close_all, daemon=True).start()
        address = f"127.0.0.1:{listening.getsockname()[1]}"
        for ask in (asks_grpc(address), asks_http(address, False), asks_grpc(address, has_tls=True)):
            with pytest.raises(Unhealthy) as caught:
                ask(SECONDS)
            assert not isinstance(caught.value, Silent)
