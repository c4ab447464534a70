"""Behaviour at the limit of a process's memory."""

from __future__ import annotations

from nnhal_devices.host.memory.memory_watch import MemoryWatch


def test_the_process_ends_beyond_the_limit_only() -> None:
    used, ended = [100], list[str]()
    watch = MemoryWatch(100, ended.append, lambda: used[0])
    watch.look(lambda: ["a run"])
    assert not ended
    used[0] = 101
    watch.look(lambda: ["a run"])
    assert ended
