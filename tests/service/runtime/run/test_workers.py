from __future__ import annotations

import subprocess
import sys
import threading
import weakref
from collections.abc import Iterator
from functools import partial

import pytest

from nnhal_service.runtime.run.workers import Workers
from tests.support.waiting import SECONDS, wait_until


@pytest.fixture
def workers() -> Iterator[Workers]:
    with Workers(2, "test") as pool:
        yield pool


def blocked(workers: Workers) -> tuple[threading.Event, threading.Event]:
    """Block a thread; return an event that is set when it waits, and one that ends the wait."""
    begun, end = threading.Event(), threading.Event()

    def wait() -> None:
        begun.set()
        end.wait(SECONDS)

    workers.start(wait)
    assert begun.wait(SECONDS)
    return begun, end


def test_results_and_errors_reach_the_caller(workers: Workers) -> None:
    assert workers.submit(divmod, 7, 2).result(SECONDS) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        workers.submit(divmod, 7, 0).result(SECONDS)


def test_one_thread_does_work_that_comes_one_after_the_other(workers: Workers) -> None:
    threads = set()
    for _ in range(50):
        threads.add(workers.submit(threading.get_ident).result(SECONDS))
        wait_until(lambda: len(workers._resting) == 1, "it rests")
    assert len(threads) == 1


def test_the_thread_that_rested_last_is_used_next(workers: Workers) -> None:
    ends = [blocked(workers)[1] for _ in range(2)]
    done: list[int] = []
    for number, end in enumerate(ends):
        end.set()
        wait_until(lambda: len(workers._resting) == number + 1, "it rests")  # noqa: B023
    last = workers._resting[-1]
    workers.submit(done.append, 1).result(SECONDS)
    wait_until(lambda: len(workers._resting) == 2, "it rests again")
    assert workers._resting[-1] is last


def test_work_waits_while_all_threads_are_busy(workers: Workers) -> None:
    ends = [blocked(workers)[1] for _ in range(2)]
    order: list[int] = []
    futures = [workers.submit(order.append, number) for number in range(3)]
    dropped = workers.submit(order.append, 99)
    assert dropped.cancel()
    assert not any(future.done() for future in futures)
    ends[0].set()
    for future in futures:
        future.result(SECONDS)
    assert order == [0, 1, 2]
    ends[1].set()


def test_a_resting_thread_holds_nothing_of_its_last_work(workers: Workers) -> None:
    class Thing:
        """Something that a weak reference can refer to."""

    thing = Thing()
    seen = weakref.ref(thing)
    workers.start(partial(id, thing))
    del thing
    wait_until(lambda: seen() is None, "it is free")


def test_an_error_is_released_with_its_future(workers: Workers, uncollected: None) -> None:
    """No reference cycle keeps it alive until the next garbage collection."""

    class Thing:
        """Something that a weak reference can refer to."""

    def fail(thing: Thing) -> None:
        raise ValueError(str(thing))

    thing = Thing()
    seen = weakref.ref(thing)
    future = workers.submit(fail, thing)
    del thing
    with pytest.raises(ValueError, match="Thing"):
        future.result(SECONDS)
    del future
    wait_until(lambda: seen() is None, "it is free")


def test_shutting_down_waits_for_running_work_and_refuses_more() -> None:
    workers = Workers(1, "test")
    _, end = blocked(workers)
    done: list[int] = []
    workers.start(lambda: done.append(1))
    threading.Timer(0.01, end.set).start()
    workers.shutdown()
    assert done == [1]
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("test_")]
    with pytest.raises(RuntimeError, match="shut down"):
        workers.start(lambda: None)
    with pytest.raises(RuntimeError, match="shut down"):
        workers.submit(print)


def test_work_that_never_ends_does_not_keep_the_process_from_ending() -> None:
    program = (
        "import threading; from nnhal_service.runtime.run.workers import Workers; "
        "Workers(1, 'x').start(threading.Event().wait)"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=SECONDS)
