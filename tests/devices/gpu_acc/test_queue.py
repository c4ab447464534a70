from __future__ import annotations

import gc
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from nnhal.errors import HalError, general_failure
from nnhal_devices.driver import DONE, Outcome
from nnhal_devices.gpu_acc.queue import InOrderQueue


def test_nothing_is_done_before_a_sync_and_then_everything_in_order() -> None:
    queue, done = InOrderQueue(), list[int]()

    def work(number: int) -> Outcome:
        done.append(number)
        return Outcome(((number,),))

    entries = [queue.enqueue(lambda n=number: work(n)) for number in range(5)]  # type: ignore[misc]
    assert done == []
    queue.sync()
    assert done == [0, 1, 2, 3, 4]
    assert [entry.result() for entry in entries] == [Outcome(((number,),)) for number in range(5)]
    queue.sync()
    assert len(done) == 5


def test_what_fails_tells_its_own_entry_and_stops_no_other() -> None:
    queue = InOrderQueue()
    first = queue.enqueue(lambda: DONE)
    failing = queue.enqueue(lambda: general_failure("no"))
    broken = queue.enqueue(lambda: Outcome(time_on_device_ns=1 // 0))
    last = queue.enqueue(lambda: DONE)
    queue.sync()
    assert first.result() is last.result() is DONE
    with pytest.raises(HalError, match="no"):
        failing.result()
    with pytest.raises(ZeroDivisionError):
        broken.result()


def test_what_is_enqueued_during_a_sync_is_left_to_the_next_one() -> None:
    queue, done = InOrderQueue(), list[str]()

    def late() -> Outcome:
        done.append("late")
        return DONE

    def early() -> Outcome:
        queue.enqueue(late)
        return DONE

    queue.enqueue(early)
    queue.sync()
    assert done == []
    queue.sync()
    assert done == ["late"]


def test_a_result_that_no_sync_has_brought_yet_is_worth_one() -> None:
    queue = InOrderQueue()
    assert queue.enqueue(lambda: DONE).result() is DONE


def test_a_sync_waits_for_what_another_one_is_doing() -> None:
    queue, begun, go_on = InOrderQueue(), threading.Event(), threading.Event()

    def slow() -> Outcome:
        begun.set()
        go_on.wait()
        return DONE

    entry = queue.enqueue(slow)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(queue.sync)
        begun.wait()
        second = pool.submit(queue.sync)
        assert not second.done()
        go_on.set()
        second.result()
        assert entry.result() is DONE
        first.result()


def test_several_threads_share_it() -> None:
    queue = InOrderQueue()

    def use(number: int) -> None:
        for _ in range(200):
            entry = queue.enqueue(lambda: Outcome(((number,),)))
            queue.sync()
            assert entry.result().dimensions == ((number,),)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(use, range(4)))


class Held:
    """Work that can be referred to weakly."""

    def __call__(self) -> Outcome:
        return DONE


def test_work_that_is_done_is_let_go() -> None:
    queue = InOrderQueue()
    work = Held()
    gone = weakref.ref(work)
    entry = queue.enqueue(work)
    del work
    assert gone() is not None
    queue.sync()
    assert gone() is None
    assert entry.result() is DONE


def test_work_that_has_failed_is_let_go_with_its_result_and_without_a_garbage_collection() -> None:
    queue = InOrderQueue()
    gc.disable()
    try:
        entry = queue.enqueue(lambda: general_failure("no"))
        gone = weakref.ref(entry)
        queue.sync()
        with suppress(HalError):
            entry.result()
        del entry
        assert gone() is None
    finally:
        gc.enable()
