"""The event loop in which requests are served, and its threads."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable

import pytest

from nnhal_service.serving import ServingLoop
from tests.support.serving import shared_loop


def test_the_loop_does_not_wait_for_itself() -> None:
    async def wait() -> None:
        shared_loop().run(asyncio.sleep(0))

    with pytest.raises(RuntimeError, match="would wait for itself"):
        shared_loop().run(wait())


def test_a_loop_that_ends_leaves_no_thread_behind() -> None:
    def threads() -> set[str]:
        return {thread.name for thread in threading.enumerate() if thread not in before}

    before = set(threading.enumerate())
    with ServingLoop(2) as loop:

        async def compute() -> int:
            return await loop.compute(os.getpid)

        assert loop.run(compute()) == os.getpid()
        loop.submit(asyncio.sleep(3600))
        assert threads() >= {"serving-loop"}
    assert threads() == set()


def test_no_more_is_computed_at_a_time_than_the_loop_has_threads() -> None:
    both, may_end = threading.Barrier(3), threading.Event()

    def hold() -> None:
        both.wait(30)
        may_end.wait(30)

    with ServingLoop(2) as loop:

        async def compute(work: Callable[[], object]) -> None:
            await loop.compute(work)

        held = [loop.submit(compute(hold)) for _ in range(2)]
        both.wait(30)
        begun = threading.Event()
        third = loop.submit(compute(begun.set))
        loop.run(asyncio.sleep(0))
        assert not begun.is_set()
        may_end.set()
        for done in (*held, third):
            done.result(30)
        assert begun.is_set()
