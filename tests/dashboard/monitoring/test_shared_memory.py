"""Shared memory by piece."""

from __future__ import annotations

from nnhal.v1 import admin_pb2
from nnhal_dashboard.monitoring.shared_memory import shared_memories, total_bytes
from nnhal_pages.operating.snapshot import ObservedProcess, Snapshot
from tests.support.dashboard import device_process


def _holding(name: str, *pools: admin_pb2.PoolState) -> ObservedProcess:
    return device_process(name, admin_pb2.GetProcessResponse(name=name, is_whole=True, pools=pools))


def _pool(memory: str, size: int = 64, session: str = "s1", kind: str = "ashmem") -> admin_pb2.PoolState:
    return admin_pb2.PoolState(memory=memory, bytes=size, session=session, kind=kind)


def test_pieces_are_known_by_their_identity_and_listed_by_size() -> None:
    snapshot = Snapshot(
        processes=(_holding("a", _pool("1:1"), _pool("1:2", 128)), _holding("b", _pool("1:1", kind="mmap_fd")))
    )
    large, small = shared_memories(snapshot)
    assert (large.identity, large.bytes, len(large.holders)) == ("1:2", 128, 1)
    assert [holder.process for holder in small.holders] == ["a", "b"]
    assert small.kinds == ["ashmem", "mmap_fd"]


def test_pieces_that_one_session_holds_are_shown_with_all_their_holders() -> None:
    snapshot = Snapshot(
        processes=(_holding("a", _pool("1:1"), _pool("1:2", session="s2")), _holding("b", _pool("1:1", session="s2")))
    )
    (piece,) = shared_memories(snapshot, "a", "s1")
    assert [holder.process for holder in piece.holders] == ["a", "b"]


def test_memory_without_an_identity_is_not_taken_for_the_same() -> None:
    snapshot = Snapshot(processes=(_holding("a", _pool(""), _pool("")),))
    assert [len(piece.holders) for piece in shared_memories(snapshot)] == [1, 1]
    assert total_bytes([_pool(""), _pool("")]) == 128


def test_each_piece_counts_once() -> None:
    assert total_bytes([_pool("1:1"), _pool("1:1", session="s2"), _pool("1:2")]) == 128
