"""The order of a replay."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor

from nnhal.recording import RecordedCall
from nnhal.v1 import recording_pb2 as wire
from nnhal_tools.replay.replay import Turns

SECONDS = 10


def calls(*times: tuple[int, int]) -> list[RecordedCall]:
    return [RecordedCall(started, ended, wire.RecordedEvent()) for started, ended in times]


def test_a_call_waits_for_those_that_had_ended_before_it_began() -> None:
    turns = Turns(calls((0, 10), (5, 20), (12, 15)))
    assert turns.wait_for(0)
    assert turns.wait_for(1)  # it had begun before the first had ended
    with ThreadPoolExecutor(1) as pool:
        last: Future[bool] = pool.submit(turns.wait_for, 2)
        turns.end(1)  # which it need not wait for
        assert not last.done()
        turns.end(0)
        assert last.result(SECONDS)


def test_calls_of_no_length_do_not_wait_for_themselves_or_for_one_another() -> None:
    turns = Turns(calls((5, 5), (5, 5), (5, 5)))
    for number in range(3):
        assert turns.wait_for(number)
        turns.end(number)


def test_all_end_when_one_fails() -> None:
    turns = Turns(calls((0, 10), (20, 30)))
    with ThreadPoolExecutor(1) as pool:
        later = pool.submit(turns.wait_for, 1)
        turns.fail()
        assert not later.result(SECONDS)
