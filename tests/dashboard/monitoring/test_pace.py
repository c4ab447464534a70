"""Problems that only the time before tells: slower than usual, than wanted, and queues that grow."""

from __future__ import annotations

from typing import Any

import pytest

from nnhal.admin import DURATION_BOUNDS_NS
from nnhal.v1 import admin_pb2, framework_admin_pb2, framework_pb2
from tests.support.dashboard import ScriptedCollector, device_process, framework_process, framework_state

MS = 10**6
EVERY = 15
"""Seconds from one moment to the next."""


class Served:
    """A model on two devices with ten requests a moment, of which each device has one execution a request."""

    def __init__(self, **fields: Any) -> None:
        self._fields = fields
        self._requests = self._duration_ns = self._queue_ns = 0
        self._busy_ns = {"cpu": 0, "npu": 0}
        self._durations = [0] * (len(DURATION_BOUNDS_NS) + 1)
        steps = [framework_pb2.StepExplanation(device=name) for name in self._busy_ns]
        self.collector = ScriptedCollector()
        explanation = framework_pb2.ModelExplanation(steps=steps)
        answer = framework_admin_pb2.ExplainTargetResponse(explanation=explanation)
        self.collector.contacts.answers["framework", "explain"] = answer

    def pass_by(
        self, moments: int, cpu_ms: int, npu_ms: int, queue_ms: int = 0, queued: int = 0, seconds: int = EVERY
    ) -> list[str]:
        """Let moments pass, with such times of a request; returns what the problems are then."""
        for _ in range(moments):
            self._requests += 10
            took = (cpu_ms + npu_ms + queue_ms) * MS
            self._duration_ns += 10 * took
            self._queue_ns += 10 * queue_ms * MS
            self._durations[next(n for n, bound in enumerate(DURATION_BOUNDS_NS) if took < bound)] += 10
            for name, ms in (("cpu", cpu_ms), ("npu", npu_ms)):
                self._busy_ns[name] += 10 * ms * MS
            counts = framework_admin_pb2.ModelCounts(
                requests=self._requests,
                duration_ns=self._duration_ns,
                queue_ns=self._queue_ns,
                durations=self._durations,
            )
            fields: dict[str, Any] = {
                "name": "net",
                "version": "1",
                "state": "READY",
                "devices": [*self._busy_ns],
                "counts": counts,
            }
            model = framework_admin_pb2.ServedModelState(queued=queued, **fields | self._fields)
            devices = [
                device_process(
                    name, device=admin_pb2.GetDeviceResponse(workers=2, busy_ns=busy, executions_ended=self._requests)
                )
                for name, busy in self._busy_ns.items()
            ]
            at = self.collector.snapshot.at + seconds
            self.collector.show(*devices, framework_process(), framework=framework_state(models=[model]), at=at)
        return [problem.text for problem in self.collector.snapshot.problems]


def test_a_model_that_is_slower_than_in_its_last_hour_is_told_with_the_step() -> None:
    served = Served()
    assert served.pass_by(60, cpu_ms=100, npu_ms=200) == []
    served.pass_by(4, cpu_ms=100, npu_ms=2900)
    (text,) = served.pass_by(1, cpu_ms=100, npu_ms=2900)
    assert text.startswith("Model net 1 is slow: a request takes 3.0 s and took 300.00 ms in the last hour")
    assert text.endswith("step 1 on npu, where an execution takes 14.5 times as long")
    assert served.pass_by(6, cpu_ms=100, npu_ms=200) == []


def test_a_model_whose_requests_wait_is_told_to_be_slow_for_its_queue() -> None:
    served = Served()
    served.pass_by(60, cpu_ms=10, npu_ms=20)
    (text,) = served.pass_by(5, cpu_ms=10, npu_ms=20, queue_ms=270)
    assert text.endswith("a request takes 300.00 ms and took 30.00 ms in the last hour; 90% of it in the queue")


def test_a_model_that_was_always_so_slow_and_a_new_one_are_no_problem() -> None:
    assert Served().pass_by(60, cpu_ms=100, npu_ms=2900) == []
    assert Served().pass_by(3, cpu_ms=100, npu_ms=2900) == []


@pytest.mark.parametrize(("goal_ms", "is_missed"), [(20, True), (400, False)])
def test_a_goal_that_is_missed_is_told(goal_ms: int, is_missed: bool) -> None:
    problems = Served(goal_ns=goal_ms * MS).pass_by(5, cpu_ms=10, npu_ms=90)
    assert len(problems) == is_missed
    assert not is_missed or problems[0].startswith("Model net 1 misses its goal: 99 % of its requests are")
    assert not is_missed or problems[0].endswith("20.00 ms are wanted")


def test_a_queue_that_grows_is_told_and_one_that_is_long_is_not() -> None:
    served = Served()
    grown = [served.pass_by(1, cpu_ms=1, npu_ms=1, queued=10 * moment, seconds=1) for moment in range(30)][-1]
    assert grown == ["The queue of model net 1 grows: from 45 to 245 requests in 30 s"]
    assert served.pass_by(31, cpu_ms=1, npu_ms=1, queued=300, seconds=1) == []
