"""Choice of a run's binding, more memory and opening again: commands and scripted answers; no process is there."""

from __future__ import annotations

from collections.abc import Mapping
from threading import Event

import numpy as np
import pytest

from nnhal.arrays import Array
from nnhal.errors import DeadObjectError, HalError
from nnhal.tensors import GUESS, Tensor
from nnhal.types import ErrorStatus, OperandType
from nnhal.types.layout import Dimensions
from nnhal_client import OutputTooSmallError, RunReport
from nnhal_client.core.model_runs import Bind, Command, Commands, ModelRuns, Reopen, Run, Wait
from nnhal_client.tensors import first_of

FLOAT = np.dtype(np.float32)
FIXED = Tensor("x", OperandType.TENSOR_FLOAT32, (2,), 8, 0.0, 0, FLOAT, FLOAT)
ANY = Tensor("x", OperandType.TENSOR_FLOAT32, (0,), 0, 0.0, 0, FLOAT, FLOAT)
UNKNOWN = Tensor("y", OperandType.TENSOR_FLOAT32, (0,), 0, 0.0, 0, FLOAT, FLOAT)
REPORT = RunReport(1, 2, (), {})
DIRECT = RunReport(1, 2, (), {}, direct=True)
UNLOADED = HalError(ErrorStatus.DEVICE_UNAVAILABLE, "the model has been unloaded")
LARGE = 5000
"""Elements that do not fit in the memory that an output has at first."""


class FakeBinding:
    """A binding as ``Bind`` asks for it, whose output is what its input was."""

    def __init__(self, command: Bind) -> None:
        self.measures = command.measure_timing
        self.lost_run_channel = False
        self.dimensions = {name: first_of(given) for name, given in command.dimensions.items()}
        self.outputs: Mapping[str, Array] = {"y": np.zeros(0, np.float32)}

    def takes(self, dimensions: Mapping[str, Dimensions]) -> bool:
        return dimensions.items() <= self.dimensions.items()

    def fill(self, inputs: Mapping[str, Array]) -> None:
        self.outputs = {"y": inputs["x"].copy()}

    def room(self, name: str) -> int:
        return max(GUESS, UNKNOWN.bytes_of(self.dimensions.get(name, (0,))))


Runs = ModelRuns[Event, FakeBinding]


def model(tensor: Tensor = FIXED, can_reopen: bool = True, concurrency: int = 4) -> Runs:
    return ModelRuns([tensor], [UNKNOWN], can_reopen, concurrency, Event)


def begun(
    runs: Runs, *x: float, measure: bool = False
) -> tuple[Commands[Event, FakeBinding], Command[Event, FakeBinding]]:
    commands = runs.run({"x": np.array(x, np.float32)}, measure)
    return commands, next(commands)


def bound(commands: Commands[Event, FakeBinding], command: Command[Event, FakeBinding]) -> FakeBinding:
    assert isinstance(command, Bind)
    binding = FakeBinding(command)
    assert commands.send(binding) == Run(binding)
    return binding


def ended(commands: Commands[Event, FakeBinding], said: RunReport = REPORT) -> list[float]:
    with pytest.raises(StopIteration) as end:
        commands.send(said)
    outputs, report = end.value.value
    assert report is said
    found: list[float] = outputs["y"].tolist()
    return found


def too_small(elements: int) -> OutputTooSmallError:
    return OutputTooSmallError("too small", {"y": (elements,)})


class TestChoice:
    """Choice of a run's binding."""

    def test_the_first_run_binds_and_the_next_one_takes_its_binding(self) -> None:
        runs = model()
        commands, command = begun(runs, 1, 2)
        binding = bound(commands, command)
        assert ended(commands) == [1, 2]
        commands, command = begun(runs, 3, 4)
        assert command == Run(binding)
        assert ended(commands) == [3, 4]
        assert runs.unwanted() == []

    def test_runs_at_one_time_have_bindings_of_their_own(self) -> None:
        runs = model()
        first, second = begun(runs, 1, 2), begun(runs, 3, 4)
        one, other = bound(*first), bound(*second)
        assert one is not other
        assert ended(second[0]) == [3, 4]
        assert begun(runs, 5, 6)[1] == Run(other)
        assert ended(first[0]) == [1, 2]

    def test_other_dimensions_need_another_binding_and_the_idle_one_goes(self) -> None:
        runs = model(ANY)
        commands, command = begun(runs, 1)
        assert command == Bind(False, {"x": (1,)})
        binding = bound(commands, command)
        ended(commands)
        commands, command = begun(runs, 1, 2)
        assert command == Bind(False, {"x": (2,)})
        assert runs.unwanted() == [binding]
        assert runs.unwanted() == []

    def test_a_measured_run_needs_a_binding_that_measures(self) -> None:
        runs = model()
        commands, command = begun(runs, 1, 2)
        binding = bound(commands, command)
        ended(commands)
        assert begun(runs, 1, 2, measure=True)[1] == Bind(True, {})
        assert runs.unwanted() == [binding]

    def test_inputs_that_do_not_fit_cost_nothing(self) -> None:
        runs = model(concurrency=1)
        with pytest.raises(ValueError, match=r"expected float32 \[2\]"):
            begun(runs, 1, 2, 3)
        assert isinstance(begun(runs, 1, 2)[1], Bind)

    def test_a_binding_whose_run_failed_goes(self) -> None:
        runs = model()
        commands, command = begun(runs, 1, 2)
        binding = bound(commands, command)
        with pytest.raises(DeadObjectError):
            commands.throw(DeadObjectError("gone"))
        assert runs.unwanted() == [binding]
        assert isinstance(begun(runs, 1, 2)[1], Bind)

    def test_when_a_run_channel_is_lost_other_bindings_are_tried_at_growing_intervals(self) -> None:
        runs = model()
        commands, command = begun(runs, 1, 2)
        bound(commands, command).lost_run_channel = True
        ended(commands)
        for interval in (1, 2, 4, 8):
            commands, command = begun(runs, 1, 2)
            binding = bound(commands, command)
            ended(commands)
            for _ in range(interval - 1):
                commands, command = begun(runs, 1, 2)
                assert command == Run(binding)
                ended(commands)
        commands, command = begun(runs, 1, 2)
        binding = bound(commands, command)
        ended(commands, DIRECT)
        for _ in range(100):
            commands, command = begun(runs, 1, 2)
            assert command == Run(binding)
            ended(commands, DIRECT)

    def test_runs_that_never_were_direct_keep_their_binding(self) -> None:
        runs = model()
        commands, command = begun(runs, 1, 2)
        binding = bound(commands, command)
        ended(commands)
        for _ in range(100):
            commands, command = begun(runs, 1, 2)
            assert command == Run(binding)
            ended(commands)

    def test_a_cancelled_run_leaves_its_binding_for_the_next(self) -> None:
        runs = model(concurrency=1)
        commands, command = begun(runs, 1, 2)
        binding = bound(commands, command)
        commands.close()
        assert begun(runs, 3, 4)[1] == Run(binding)

    def test_all_bindings_go_once_with_the_session(self) -> None:
        runs = model()
        idle, busy = begun(runs, 1, 2), begun(runs, 3, 4)
        bindings = [bound(*idle), bound(*busy)]
        ended(idle[0])
        runs.close()
        assert runs.unwanted() == bindings
        with pytest.raises(DeadObjectError):
            busy[0].throw(DeadObjectError("closed"))
        assert runs.unwanted() == []
        late = begun(runs, 5, 6)
        binding = bound(*late)
        ended(late[0])
        assert runs.unwanted() == [binding]


class TestGrowth:
    """Outputs that are larger than their memory."""

    def test_it_is_bound_again_with_more_memory(self) -> None:
        runs = model()
        commands, command = begun(runs, 1, 2)
        small = bound(commands, command)
        command = commands.throw(too_small(LARGE))
        assert command == Bind(False, {"y": (LARGE,)})
        assert runs.unwanted() == [small]
        bound(commands, command)
        assert ended(commands) == [1, 2]

    def test_first_runs_at_one_time_all_get_more_memory(self) -> None:
        runs = model()
        begins = [begun(runs, number, 0) for number in range(4)]
        bindings = [bound(*begin) for begin in begins]
        for commands, _ in begins:
            bound(commands, commands.throw(too_small(LARGE)))
        assert [ended(commands)[0] for commands, _ in begins] == [0, 1, 2, 3]
        assert runs.unwanted() == bindings

    def test_it_grows_as_often_as_it_has_to(self) -> None:
        runs = model()
        commands, command = begun(runs, 1, 2)
        for elements in (LARGE, 2 * LARGE, 3 * LARGE):
            bound(commands, command)
            command = commands.throw(too_small(elements))
            assert command == Bind(False, {"y": (elements,)})

    @pytest.mark.parametrize("said", [{}, {"y": (0,)}, {"y": (3,)}, {"y": (LARGE,)}, {"other": (2 * LARGE,)}])
    def test_what_asks_for_no_more_than_it_had_is_the_answer(self, said: Mapping[str, Dimensions]) -> None:
        runs = model(concurrency=1)
        commands, command = begun(runs, 1, 2)
        bound(commands, command)
        bound(commands, commands.throw(too_small(LARGE)))
        with pytest.raises(OutputTooSmallError):
            commands.throw(OutputTooSmallError("too small", said))
        assert isinstance(begun(runs, 1, 2)[1], Bind)

    def test_what_was_known_does_not_shrink(self) -> None:
        runs = model()
        first, second = begun(runs, 1, 2), begun(runs, 3, 4)
        for begin in (first, second):
            bound(*begin)
        assert first[0].throw(too_small(2 * LARGE)) == Bind(False, {"y": (2 * LARGE,)})
        assert second[0].throw(too_small(LARGE)) == Bind(False, {"y": (2 * LARGE,)})


class TestReopening:
    """Models that the server has unloaded and loaded again."""

    def test_it_is_opened_again_and_run(self) -> None:
        runs = model()
        commands, command = begun(runs, 1, 2)
        stale = bound(commands, command)
        assert commands.throw(UNLOADED) == Reopen(0)
        runs.reopened([FIXED], [UNKNOWN])
        assert runs.unwanted() == [stale]
        bound(commands, commands.send(None))
        assert ended(commands) == [1, 2]

    def test_it_is_opened_once_for_a_run(self) -> None:
        runs = model()
        commands, command = begun(runs, 1, 2)
        bound(commands, command)
        assert isinstance(commands.throw(UNLOADED), Reopen)
        runs.reopened([FIXED], [UNKNOWN])
        bound(commands, commands.send(None))
        with pytest.raises(HalError, match="unloaded"):
            commands.throw(UNLOADED)

    def test_what_is_no_longer_there_is_the_answer(self) -> None:
        runs = model(concurrency=1)
        commands, command = begun(runs, 1, 2)
        bound(commands, command)
        assert isinstance(commands.throw(UNLOADED), Reopen)
        with pytest.raises(HalError, match="not ready"):
            commands.throw(HalError(ErrorStatus.DEVICE_UNAVAILABLE, "not ready"))
        assert isinstance(begun(runs, 1, 2)[1], Bind)

    def test_a_model_of_the_session_is_not_opened_again(self) -> None:
        commands, command = begun(model(can_reopen=False), 1, 2)
        bound(commands, command)
        with pytest.raises(HalError, match="unloaded"):
            commands.throw(UNLOADED)

    def test_other_errors_are_the_answer(self) -> None:
        commands, command = begun(model(), 1, 2)
        bound(commands, command)
        with pytest.raises(HalError, match="too hot"):
            commands.throw(HalError(ErrorStatus.GENERAL_FAILURE, "too hot"))

    def test_any_error_of_a_run_that_began_before_another_has_opened_it_is_a_reason_to_repeat(self) -> None:
        runs = model()
        commands, command = begun(runs, 1, 2)
        bound(commands, command)
        runs.reopened([FIXED], [UNKNOWN])
        assert commands.throw(HalError(ErrorStatus.INVALID_ARGUMENT, "no such binding")) == Reopen(0)

    def test_bindings_of_an_earlier_opening_go(self) -> None:
        runs = model()
        idle, busy = begun(runs, 1, 2), begun(runs, 3, 4)
        bindings = [bound(*idle), bound(*busy)]
        ended(idle[0])
        runs.reopened([FIXED], [UNKNOWN])
        assert runs.unwanted() == bindings[:1]
        ended(busy[0])
        assert runs.unwanted() == bindings[1:]
        assert isinstance(begun(runs, 5, 6)[1], Bind)

    def test_the_inputs_are_those_of_the_model_as_it_is_opened(self) -> None:
        runs = model(ANY)
        commands, command = begun(runs, 1, 2, 3)
        bound(commands, command)
        assert isinstance(commands.throw(UNLOADED), Reopen)
        runs.reopened([FIXED], [UNKNOWN])
        with pytest.raises(ValueError, match=r"expected float32 \[2\]"):
            commands.send(None)


class TestTurns:
    """So many runs at a time."""

    def test_the_next_one_begins_when_one_has_ended(self) -> None:
        runs = model(concurrency=2)
        begins = [begun(runs, number, 0) for number in range(2)]
        bindings = [bound(*begin) for begin in begins]
        third, fourth = begun(runs, 2, 0), begun(runs, 3, 0)
        assert isinstance(third[1], Wait) and isinstance(fourth[1], Wait)
        assert not third[1].turn.is_set()
        ended(begins[1][0])
        assert third[1].turn.is_set() and not fourth[1].turn.is_set()
        assert third[0].send(None) == Run(bindings[1])

    def test_one_that_is_cancelled_while_it_waits_has_no_turn(self) -> None:
        runs = model(concurrency=1)
        first = begun(runs, 1, 2)
        bound(*first)
        second, third = begun(runs, 3, 4), begun(runs, 5, 6)
        assert isinstance(second[1], Wait) and isinstance(third[1], Wait)
        second[0].close()
        ended(first[0])
        assert third[1].turn.is_set() and not second[1].turn.is_set()

    def test_one_that_is_cancelled_in_its_turn_passes_it_on(self) -> None:
        runs = model(concurrency=1)
        first = begun(runs, 1, 2)
        bound(*first)
        second, third = begun(runs, 3, 4), begun(runs, 5, 6)
        assert isinstance(second[1], Wait) and isinstance(third[1], Wait)
        ended(first[0])
        assert second[1].turn.is_set() and not third[1].turn.is_set()
        second[0].close()
        assert third[1].turn.is_set()

    def test_a_failed_bind_ends_the_turn(self) -> None:
        runs = model(concurrency=1)
        commands, _ = begun(runs, 1, 2)
        with pytest.raises(OSError, match="Too many open files"):
            commands.throw(OSError("Too many open files"))
        assert isinstance(begun(runs, 1, 2)[1], Bind)
