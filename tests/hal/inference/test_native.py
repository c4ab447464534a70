from __future__ import annotations

import pytest

from nnhal.inference.native import BOOT_ID, boot_id, is_on_this_host

LOCAL = ["unix:", "unix:/run/nnhal/inference.sock", "ipv4:127.0.0.1:5000", "ipv4:127.8.8.8:1", "ipv6:%5B::1%5D:5000"]
MAPPED = "ipv6:[::ffff:127.0.0.1]:5000"
ELSEWHERE = ["ipv4:10.0.0.1:5000", "ipv6:[fe80::1]:5000", "ipv4:0.0.0.0:1", "ipv6:[::ffff:10.0.0.1]:1", "", "ipv4:x:1"]


def knowing() -> list[tuple[str, str | bytes]]:
    """Return the metadata that a client on this host sends."""
    return [("user-agent", "test"), (BOOT_ID, boot_id())]


def test_a_host_has_an_id() -> None:
    assert len(boot_id()) == 36


@pytest.mark.parametrize("peer", [*LOCAL, MAPPED])
def test_a_local_peer_with_the_id_is_on_this_host(peer: str) -> None:
    assert is_on_this_host(peer, knowing())


@pytest.mark.parametrize("peer", ELSEWHERE)
def test_a_remote_peer_is_not_on_this_host_even_with_the_id(peer: str) -> None:
    assert not is_on_this_host(peer, knowing())


@pytest.mark.parametrize("metadata", [[], [(BOOT_ID, "")], [(BOOT_ID, "x" * 36)], [("nnhal-other", "x")]])
def test_a_local_peer_without_the_id_may_be_a_proxy(metadata: list[tuple[str, str | bytes]]) -> None:
    assert not is_on_this_host("ipv4:127.0.0.1:5000", metadata)


def test_a_host_without_an_id_has_no_local_peers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nnhal.inference.native.boot_id", lambda: "")
    assert not is_on_this_host("unix:", [(BOOT_ID, "")])
