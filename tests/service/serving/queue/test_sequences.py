"""The order and the state of requests of one sequence; what they run on is made up."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any

import numpy as np
import pytest

from nnhal_service.runtime import StateLostError
from nnhal_service.runtime.run.deadlines import StillRunningError
from nnhal_service.serving.config import ControlKind, SequenceControl, Sequencing
from nnhal_service.serving.errors import ErrorKind, ServingError
from nnhal_service.serving.queue.request_queue import NEVER
from nnhal_service.serving.queue.sequences import Sequencer, Turn, flags_of
from nnhal_service.serving.requests.request import InferenceRequest, Parameter
from tests.support.serving import shared_loop
from tests.support.waiting import wait_until

_MINUTE_NS = 60 * 10**9


class Memory:
    """Memory of a sequence, which notes how it is used."""

    def __init__(self) -> None:
        self.begun = 0
        self.closed = False
        self.is_current = True

    def start(self, *_: object) -> Any:
        raise AssertionError("nothing runs here")

    def begin(self) -> None:
        self.begun += 1

    def close(self) -> None:
        self.closed = True


class Model:
    """A model with sequences, of which the requests are played by hand."""

    def __init__(
        self, idle_ns: int = _MINUTE_NS, most: int = 8, kept: int = 1, *controls: SequenceControl, candidates: int = 0
    ) -> None:
        self.memories: list[Memory] = []
        shapes = {control.input: (1,) for control in controls}
        config = Sequencing(idle_ns, most, controls, candidates)
        self.sequencer = Sequencer("m", config, self._make, kept, shapes, shared_loop())

    def _make(self) -> Memory:
        self.memories.append(Memory())
        return self.memories[-1]

    def enter(self, identifier: Parameter, start: bool = False, end: bool = False) -> Turn:
        return self.sequencer.enter(request(sequence_id=identifier, sequence_start=start, sequence_end=end))

    async def run(
        self, identifier: Parameter, start: bool = False, end: bool = False, fails: Exception | None = None
    ) -> Memory:
        """A whole request: what it ran on. ``fails`` is why its run fails."""
        turn, error = self.enter(identifier, start, end), None
        try:
            await turn.begin(NEVER)
            memory = turn.sequence.memory
            assert isinstance(memory, Memory)
            if fails is not None:
                error = ServingError(ErrorKind.INTERNAL, "it failed")
                error.__cause__ = fails
            return memory
        except ServingError as refused:
            error = refused
            raise
        finally:
            turn.end(error)


def request(**parameters: Parameter) -> InferenceRequest:
    return InferenceRequest({}, parameters=parameters)


def played(scenario: Coroutine[Any, Any, None]) -> None:
    shared_loop().run(scenario)


def in_loop(scenario: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    def test() -> None:
        played(scenario())

    test.__doc__ = scenario.__doc__
    return test


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "must specify a non-zero or non-empty correlation ID"),
        ({"sequence_id": ""}, "must specify a non-zero or non-empty correlation ID"),
        ({"sequence_id": 1.5}, "parameter 'sequence_id' is 1.5, expected an integer or a string"),
        ({"sequence_id": True}, "expected an integer or a string"),
        ({"sequence_id": -1}, "is -1, expected 0 to 18446744073709551615"),
        ({"sequence_id": 2**64}, "expected 0 to 18446744073709551615"),
        ({"sequence_id": "ä" * 65}, "has 130 bytes, expected 128 at the most"),
    ],
)
def test_what_is_no_identifier_is_refused(given: dict[str, Parameter], words: str) -> None:
    with pytest.raises(ServingError, match=words) as caught:
        flags_of(request(**given), "m")
    assert caught.value.kind is ErrorKind.INVALID_ARGUMENT


def test_identifiers_and_flags() -> None:
    assert flags_of(request(sequence_id=2**64 - 1, sequence_start=True), "m") == (2**64 - 1, True, False)
    assert flags_of(request(sequence_id="ä" * 64, sequence_end=True), "m") == ("ä" * 64, False, True)


@in_loop
async def test_requests_of_a_sequence_wait_for_one_another() -> None:
    model = Model()
    first, second, third = model.enter(1, start=True), model.enter(1), model.enter(1, end=True)
    await first.begin(NEVER)
    later = [asyncio.ensure_future(turn.begin(NEVER)) for turn in (third, second)]
    await asyncio.wait(later, timeout=0)
    assert not any(task.done() for task in later)
    first.end(None)
    await later[1]
    assert not later[0].done()
    second.end(None)
    await later[0]
    third.end(None)
    assert model.sequencer.live == 0
    assert [memory.begun for memory in model.memories] == [1]


@in_loop
async def test_sequences_do_not_wait_for_one_another() -> None:
    model = Model()
    one, other = model.enter(1, start=True), model.enter("1", start=True)
    await one.begin(NEVER)
    await other.begin(NEVER)
    assert one.sequence.memory is not other.sequence.memory
    assert model.sequencer.live == 2


@in_loop
async def test_a_request_that_is_cancelled_while_it_waits_leaves_its_place() -> None:
    model = Model()
    first, second, third = model.enter(1, start=True), model.enter(1, end=True), model.enter(1)
    await first.begin(NEVER)
    waiting = asyncio.ensure_future(second.begin(NEVER))
    await asyncio.wait([waiting], timeout=0)
    second.request.cancellation.cancel()
    with pytest.raises(ServingError) as caught:
        await waiting
    assert caught.value.kind is ErrorKind.CANCELLED
    second.end(caught.value)
    first.end(None)
    await third.begin(NEVER)  # that its predecessor was to end the sequence does not count: it has not run
    third.end(None)
    assert model.sequencer.live == 1


@in_loop
async def test_a_request_waits_until_its_deadline_only() -> None:
    model = Model()
    first, second = model.enter(1, start=True), model.enter(1)
    await first.begin(NEVER)
    with pytest.raises(ServingError, match="while the request waited for others of its sequence") as caught:
        await second.begin(time.monotonic_ns())
    assert caught.value.kind is ErrorKind.DEADLINE_EXCEEDED
    second.end(caught.value)
    first.end(None)
    await model.run(1, end=True)


@in_loop
async def test_what_a_sequence_ran_on_is_used_again() -> None:
    model = Model(kept=1)
    first = await model.run(1, start=True, end=True)
    assert await model.run(2, start=True) is first
    assert (first.begun, first.closed) == (2, False)
    assert await model.run(3, start=True) is not first


@in_loop
async def test_a_start_within_a_sequence_begins_anew() -> None:
    model = Model()
    memory = await model.run(1, start=True)
    await model.run(1)
    assert memory.begun == 1
    assert await model.run(1, start=True) is memory
    assert memory.begun == 2
    memory.is_current = False  # a device of its plan has gone
    assert await model.run(1, start=True) is not memory


@in_loop
async def test_there_are_so_many_sequences() -> None:
    model = Model(most=2)
    await model.run(1, start=True)
    await model.run(2, start=True)
    with pytest.raises(ServingError, match="model 'm' has 2 sequences, which is all that it may have") as caught:
        model.enter(3, start=True)
    assert caught.value.kind is ErrorKind.UNAVAILABLE
    await model.run(1, end=True)
    await model.run(3, start=True)


@in_loop
async def test_sequences_beyond_the_candidates_wait_for_one_to_end_the_oldest_first() -> None:
    model = Model(most=5, candidates=2)
    for identifier in (1, 2):
        await model.run(identifier, start=True)
    turns = [model.enter(each, start=True, end=True) for each in (3, 4, 5)]
    third, fourth, fifth = (asyncio.ensure_future(turn.begin(NEVER)) for turn in turns)
    with pytest.raises(ServingError, match="model 'm' has 5 sequences"):
        model.enter(6, start=True)
    await model.run(2, end=True)
    await third
    turns[0].end(None)
    await fourth
    assert not fifth.done()
    turns[2].request.cancellation.cancel()
    with pytest.raises(ServingError, match="cancelled"):
        await fifth
    turns[2].end(None)
    await model.run(1)
    turns[1].end(None)
    await model.run(6, start=True, end=True)
    assert model.sequencer.live == 1


@in_loop
async def test_a_sequence_that_waits_keeps_the_deadline_of_its_requests() -> None:
    model = Model(candidates=1)
    await model.run(1, start=True)
    turn = model.enter(2, start=True)
    with pytest.raises(ServingError, match="Deadline exceeded while the request waited for other sequences to end"):
        await turn.begin(0)
    turn.end(None)
    assert model.sequencer.live == 1
    await model.run(1, end=True)
    await model.run(3, start=True, end=True)
    assert model.sequencer.live == 0


@in_loop
async def test_a_lost_state_is_told_with_the_name_of_the_sequence() -> None:
    model = Model()
    turn = model.enter("s", start=True)
    await turn.begin(NEVER)
    error = ServingError(ErrorKind.INTERNAL, "a run failed")
    error.__cause__ = StateLostError(["npu", "npu"])
    told = turn.explained(error)
    assert told.kind is ErrorKind.UNAVAILABLE
    assert str(told) == "sequence s of model 'm' is over: its state was lost with npu; start it again"
    turn.end(told)
    assert model.sequencer.live == 0


def test_a_run_that_outlasts_its_deadline_ends_the_sequence_and_keeps_its_memory_from_others() -> None:
    model, memories = Model(), list[Memory]()

    async def scenario() -> None:
        memories.append(await model.run(1, start=True, fails=StillRunningError()))
        with pytest.raises(ServingError, match="a request of it has outlasted its deadline; start it again") as caught:
            await model.run(1)
        assert caught.value.kind is ErrorKind.UNAVAILABLE
        with pytest.raises(ServingError, match="must specify the START flag"):
            await model.run(1)
        memories.append(await model.run(1, start=True))

    played(scenario())
    one, other = memories
    assert one is not other
    wait_until(lambda: one.closed, "it is released")


def test_closing_releases_all_and_lets_no_request_begin() -> None:
    model = Model(kept=1)

    async def scenario() -> None:
        await model.run(1, start=True, end=True)
        await model.run(2, start=True)
        await model.run(3, start=True)

    played(scenario())
    model.sequencer.close()
    wait_until(lambda: all(memory.closed for memory in model.memories), "all is released")
    assert model.sequencer.live == 0

    async def late() -> None:
        with pytest.raises(ServingError, match="the model is being unloaded"):
            await model.run(4, start=True)

    played(late())


@in_loop
async def test_control_inputs_are_the_servers() -> None:
    controls = [
        SequenceControl("first", ControlKind.START, np.dtype(np.float32), (0, 5)),
        SequenceControl("last", ControlKind.END, np.dtype(np.int32), (-1, 1)),
        SequenceControl("id", ControlKind.CORRID, np.dtype(np.int64)),
    ]
    model = Model(_MINUTE_NS, 8, 1, *controls)
    turn = model.enter(9, start=True)
    given = {name: np.asarray(value).tolist() for name, value in turn.request.inputs.items()}
    assert given == {"first": [5], "last": [-1], "id": [9]}
    turn.end(None)
    given_too = InferenceRequest({"last": np.zeros(1, np.int32)}, parameters={"sequence_id": 9})
    with pytest.raises(ServingError, match="unexpected inference input 'last' for model 'm'"):
        model.sequencer.enter(given_too)
