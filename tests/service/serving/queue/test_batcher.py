"""Order of requests, and their batches. The tests hold the runs, so that nothing depends on time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait

import pytest

from nnhal_service.serving import Batching, Cancellation, ErrorKind, QueuePolicy, ServingConfig, ServingError
from nnhal_service.serving.config import TimeoutAction
from nnhal_service.serving.queue.batcher import Batcher
from nnhal_service.serving.queue.request_queue import Ticket
from tests.support.serving import Named, Rig, shared_loop
from tests.support.waiting import wait_until

HOUR_NS = 3600 * 10**9
BATCHED = ServingConfig(max_batch_size=8, batching=Batching())
PATIENT = ServingConfig(max_batch_size=8, batching=Batching((4,), HOUR_NS))


def test_a_free_instance_runs_a_request_at_once_in_the_loop() -> None:
    started: list[threading.Thread] = []

    def start(batch: Sequence[Ticket], ended: Callable[[], None]) -> None:
        started.append(threading.current_thread())
        ended()

    batcher: Batcher[Ticket] = Batcher(ServingConfig(), start, shared_loop())

    async def submit() -> threading.Thread:
        for _ in range(3):
            with pytest.raises(StopIteration):  # there is nothing to wait for
                batcher.submit(Ticket(), Cancellation()).send(None)
        return threading.current_thread()

    here = shared_loop().run(submit())
    assert started == [here] * 3


def test_as_many_run_as_there_are_instances_and_the_others_wait_in_order() -> None:
    with Rig(ServingConfig(instances=2)) as rig:
        futures = [rig.submit(Named(name)) for name in "abcde"]
        first, second = rig.next(), rig.next()
        assert {*first.names, *second.names} == {"a", "b"}
        assert rig.batcher.pending == 3
        second.let_go()
        third = rig.next()
        assert third.names == ["c"]
        third.let_go()
        fourth = rig.next()
        assert fourth.names == ["d"]
        first.let_go()
        assert rig.next().names == ["e"]
        wait_until(lambda: all(future.done() for future in futures[:3]), "what has run returns")
        assert not futures[4].done()


def test_what_waits_is_run_together_as_far_as_it_fits() -> None:
    with Rig(BATCHED) as rig:
        futures = [rig.submit(Named(name, size)) for name, size in (("a", 1), ("b", 3), ("c", 5), ("d", 1))]
        rig.next().let_go()
        batch = rig.next()
        assert batch.names == ["b", "c"]
        assert not futures[1].done() and not futures[2].done()
        batch.let_go()
        rig.next().let_go()
        assert [future.result(60) for future in futures] == [None] * 4


def test_requests_of_other_shapes_are_not_run_together() -> None:
    with Rig(BATCHED) as rig:
        rig.submit(Named("a"))
        for name, key in (("b", (3,)), ("c", (3,)), ("d", (4,)), ("e", (3,))):
            rig.submit(Named(name, key=key))
        seen = []
        for _ in range(4):
            batch = rig.next()
            seen.append(batch.names)
            batch.let_go()
        assert seen == [["a"], ["b", "c"], ["d"], ["e"]]


def test_a_preferred_size_runs_at_once_and_others_wait_for_it() -> None:
    with Rig(PATIENT) as rig:
        for name in "abc":
            rig.submit(Named(name))
        assert rig.batcher.pending == 3
        rig.submit(Named("d"))
        batch = rig.next()
        assert batch.names == ["a", "b", "c", "d"]
        assert rig.batcher.pending == 0


def test_a_full_batch_does_not_wait() -> None:
    with Rig(PATIENT) as rig:
        rig.submit(Named("a", 3))
        rig.submit(Named("b", 5))
        assert rig.next().names == ["a", "b"]


def test_a_batch_that_cannot_grow_does_not_wait() -> None:
    with Rig(PATIENT) as rig:
        rig.submit(Named("a", 3))
        rig.submit(Named("b", 6))
        assert rig.next().names == ["a"]


def test_what_has_waited_long_enough_runs_alone() -> None:
    with Rig(ServingConfig(max_batch_size=8, batching=Batching((), 1_000_000))) as rig:
        future = rig.submit(Named("a"))
        batch = rig.next()
        assert batch.names == ["a"]
        batch.let_go()
        future.result(60)


def test_who_cannot_wait_for_others_does_not() -> None:
    config = ServingConfig(max_batch_size=8, batching=Batching((), HOUR_NS))
    with Rig(config) as rig:
        rig.submit(Named("a"))
        assert rig.batcher.pending == 1
        rig.submit(Named("b", deadline_ns=time.monotonic_ns() + HOUR_NS // 2))
        assert rig.next().names == ["a", "b"]


def test_closing_runs_what_waits_and_refuses_what_comes() -> None:
    with Rig(PATIENT) as rig:
        waiting = rig.submit(Named("a"))
        closing = threading.Thread(target=rig.close)
        closing.start()
        batch = rig.next()
        assert batch.names == ["a"]
        with pytest.raises(ServingError, match="being unloaded") as refused:
            rig.submit_and_wait(Named("b"))
        assert refused.value.kind is ErrorKind.UNAVAILABLE
        assert closing.is_alive()
        batch.let_go()
        closing.join(60)
        assert not closing.is_alive()
        waiting.result(60)


def test_a_higher_priority_goes_first_and_others_keep_their_order() -> None:
    with Rig(ServingConfig(priority_levels=3, default_priority=2)) as rig:
        rig.submit(Named("first"))
        for name, priority in (("low", 3), ("default", 0), ("unknown", 9), ("high", 1), ("higher", 1), ("two", 2)):
            rig.submit(Named(name, priority=priority))
        seen = []
        for _ in range(7):
            batch = rig.next()
            seen += batch.names
            batch.let_go()
        assert seen == ["first", "high", "higher", "default", "unknown", "two", "low"]


def test_a_full_queue_refuses_and_other_levels_do_not() -> None:
    config = ServingConfig(priority_levels=2, default_priority=2, priority_queues={2: QueuePolicy(max_queue_size=2)})
    with Rig(config) as rig:
        for name in "abc":
            rig.submit(Named(name))
        with pytest.raises(ServingError, match=r"^Exceeds maximum queue size$") as refused:
            rig.submit_and_wait(Named("d"))
        assert refused.value.kind is ErrorKind.UNAVAILABLE
        rig.submit(Named("e", priority=1))
        assert rig.batcher.pending == 3


def test_who_has_waited_too_long_is_rejected() -> None:
    with Rig(ServingConfig(queue=QueuePolicy(default_timeout_ns=1))) as rig:
        rig.submit(Named("a"))
        late = rig.submit(Named("b"))
        with pytest.raises(ServingError, match=r"^Request timeout expired$") as rejected:
            late.result(60)
        assert rejected.value.kind is ErrorKind.UNAVAILABLE
        assert rig.batcher.pending == 0


@pytest.mark.parametrize(("allowed", "kind"), [(True, ErrorKind.UNAVAILABLE), (False, ErrorKind.DEADLINE_EXCEEDED)])
@pytest.mark.parametrize("default", [0, HOUR_NS])
def test_a_request_waits_no_longer_than_it_may(allowed: bool, kind: ErrorKind, default: int) -> None:
    policy = QueuePolicy(default_timeout_ns=default, allow_timeout_override=allowed)
    with Rig(ServingConfig(queue=policy)) as rig:
        rig.submit(Named("a"))  # never ends
        with pytest.raises(ServingError) as late:
            rig.submit_and_wait(Named("b", timeout_ns=1))
        assert late.value.kind is kind
        assert rig.batcher.pending == 0


def test_who_has_waited_too_long_is_delayed_behind_the_others() -> None:
    policy = QueuePolicy(TimeoutAction.DELAY, allow_timeout_override=True)
    now = [0]
    with Rig(ServingConfig(queue=policy), lambda: now[0]) as rig:
        rig.submit(Named("a"))
        rig.submit(Named("b", timeout_ns=HOUR_NS))
        rig.submit(Named("c"))
        now[0] = 2 * HOUR_NS
        seen = []
        for _ in range(3):
            batch = rig.next()
            seen += batch.names
            batch.let_go()
        assert seen == ["a", "c", "b"]


def test_a_deadline_holds_in_the_queue_too() -> None:
    with Rig(ServingConfig()) as rig:
        rig.submit(Named("a"))
        late = rig.submit(Named("b", deadline_ns=time.monotonic_ns()))
        with pytest.raises(ServingError) as missed:
            late.result(60)
        assert missed.value.kind is ErrorKind.DEADLINE_EXCEEDED
        assert rig.batcher.pending == 0


def test_a_cancelled_request_leaves_the_queue_at_once() -> None:
    with Rig(ServingConfig()) as rig:
        rig.submit(Named("a"))
        cancellation = Cancellation()
        withdrawn, other = rig.submit(Named("b"), cancellation), rig.submit(Named("c"))
        cancellation.cancel()
        with pytest.raises(ServingError) as cancelled:
            withdrawn.result(60)
        assert cancelled.value.kind is ErrorKind.CANCELLED
        rig.next().let_go()
        last = rig.next()
        assert last.names == ["c"]
        last.let_go()
        other.result(60)


def test_a_request_that_was_cancelled_before_is_not_queued() -> None:
    with Rig(ServingConfig()) as rig:
        rig.submit(Named("a"))
        cancellation = Cancellation()
        cancellation.cancel()
        with pytest.raises(ServingError) as cancelled:
            rig.submit_and_wait(Named("b"), cancellation)
        assert cancelled.value.kind is ErrorKind.CANCELLED
        assert rig.batcher.pending == 0


def test_answers_come_in_order_where_that_is_asked_for() -> None:
    config = ServingConfig(max_batch_size=1, instances=2, batching=Batching(preserve_ordering=True))
    with Rig(config) as rig:
        first, second = rig.submit(Named("a")), rig.submit(Named("b"))
        early, late = sorted((rig.next(), rig.next()), key=lambda held: held.names)
        late.let_go()
        third = rig.submit(Named("c"))
        assert rig.next().names == ["c"]  # its instance is free, its answer waits
        assert not second.done()
        early.let_go()
        first.result(60)
        second.result(60)
        assert not third.done()


@pytest.mark.slow
@pytest.mark.parametrize("instances", [1, 3])
@pytest.mark.parametrize("batching", [None, Batching(), Batching((4,), 50_000)])
def test_every_request_of_many_threads_runs_once(instances: int, batching: Batching | None) -> None:
    config = ServingConfig(max_batch_size=4, instances=instances, batching=batching, priority_levels=2)
    ran: list[str] = []
    running: list[int] = []
    most = [0]
    lock = threading.Lock()

    loop, threads = shared_loop(), ThreadPoolExecutor(instances)

    def run(batch: Sequence[Named], ended: Callable[[], None]) -> None:
        with lock:
            running.append(1)
            most[0] = max(most[0], len(running))
            ran.extend(ticket.name for ticket in batch)
        assert sum(ticket.size for ticket in batch) <= 4
        with lock:
            running.pop()
        loop.call(ended)

    def start(batch: Sequence[Named], ended: Callable[[], None]) -> None:
        threads.submit(run, batch, ended)

    batcher: Batcher[Named] = Batcher(config, start, loop)

    def client(number: int) -> None:
        for index in range(200):
            ticket = Named(f"{number}.{index}", 1 + index % 3, priority=index % 3)
            cancellation = Cancellation()
            if index % 7 == 0:
                threading.Thread(target=cancellation.cancel).start()
            try:
                loop.run(batcher.submit(ticket, cancellation))
            except ServingError as error:
                assert error.kind is ErrorKind.CANCELLED
                with lock:
                    ran.append(ticket.name)

    with threads, ThreadPoolExecutor(8) as clients:
        futures = [clients.submit(client, number) for number in range(8)]
        assert not wait(futures, 60).not_done
        for future in futures:
            future.result()
        loop.run(batcher.close())
    assert sorted(ran) == sorted(f"{number}.{index}" for number in range(8) for index in range(200))
    assert most[0] <= instances
