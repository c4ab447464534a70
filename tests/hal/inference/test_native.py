from __future__ import annotations

import pytest

from nnhal.inference.native import BOOT_ID, boot_id, is_on_this_host

LOCAL = ["unix:", "unix:/run/nnhal/inference.sock", "ipv4:127.0.0.1:5000", "ipv4:127.8.8.8:1", "ipv6:%5B::1%5D:5000"]
MAPPED = "ipv6:[::ffff:127.0.0.1]:5000"
ELSEWHERE = ["ipv4:10.0.0.1:5000", "ipv6:[fe80::1]:5000", "ipv4:0.0.0.0:1", "ipv6:[::ffff:10.0.0.1]:1", "", "ipv4:x:1"]


def knowing() -> list[tuple[str, str | bytes]]:
    """What a client on this host sends."""
    return [("user-agent", "test"), (BOOT_ID, boot_id())]


def test_a_host_has_an_id() -> None:
    assert len(boot_id()) == 36


@pytest.mark.parametrize("peer", [*LOCAL, MAPPED])
def test_who_comes_from_here_and_knows_the_id_is_here(peer: str) -> None:
    assert is_on_this_host(peer, knowing())


@pytest.mark.parametrize("peer", ELSEWHERE)
def test_who_comes_from_elsewhere_is_not_whatever_he_knows(peer: str) -> None:
    assert not is_on_this_host(peer, knowing())


@pytest.mark.parametrize("metadata", [[], [(BOOT_ID, "")], [(BOOT_ID, "x" * 36)], [("nnhal-other", "x")]])
def test_who_does_not_know_the_id_may_come_by_a_proxy(metadata: list[tuple[str, str | bytes]]) -> None:
    assert not is_on_this_host("ipv4:127.0.0.1:5000", metadata)


def test_a_host_without_an_id_tells_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nnhal.inference.native.boot_id", lambda: "")
    assert not is_on_this_host("unix:", [(BOOT_ID, "")])
