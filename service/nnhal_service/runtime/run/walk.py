"""Walking the control flow of a plan: which step comes next, and which values it receives."""

from __future__ import annotations

from collections.abc import Iterator

from nnhal.clock import now_ns
from nnhal.errors import HalError, general_failure
from nnhal.types import DEFAULT_LOOP_TIMEOUT_NS, MAX_LOOP_TIMEOUT_NS, ErrorStatus
from nnhal_service.partition import CompoundPlan, GotoStep, IfStep, Step, WhileStep
from nnhal_service.runtime.memory.slots import Slot
from nnhal_service.runtime.memory.values import Values
from nnhal_service.runtime.run.reports import OutputReport, OutputTooSmallError

_RUNTIME = "the framework"


class LoopTimeoutError(HalError):
    """A loop that the framework walks took too long. No other device is tried, since none would be faster."""

    def __init__(self, timeout_ns: int) -> None:
        message = f"a loop that the framework walks took more than {timeout_ns} ns"
        super().__init__(ErrorStatus.MISSED_DEADLINE_TRANSIENT, message)


def loop_timeout(duration_ns: int) -> int:
    """Return how long one activation of WHILE may take, in nanoseconds: the default for -1, at most the HAL's maximum.

    Raises INVALID_ARGUMENT.
    """
    if duration_ns < -1:
        raise HalError(ErrorStatus.INVALID_ARGUMENT, f"a loop timeout of {duration_ns} ns, expected -1 or more")
    return DEFAULT_LOOP_TIMEOUT_NS if duration_ns == -1 else min(duration_ns, MAX_LOOP_TIMEOUT_NS)


def walk(plan: CompoundPlan, values: Values, loop_timeout_ns: int) -> Iterator[int]:
    """Yield the steps that devices are to run, in order, by their number among the plan's device steps.

    The values that a step reads have been passed on when it is yielded, and it must have run before the next one is
    asked for. Raises LoopTimeoutError, OutputTooSmallError, and as reading memory does.
    """
    numbers: dict[int, int] = {}
    for index, step in enumerate(plan.steps):
        if isinstance(step, Step):
            numbers[index] = len(numbers)
    loops: dict[int, _Loop] = {}
    index = 0
    while index < len(plan.steps):
        step = plan.steps[index]
        if isinstance(step, Step):
            yield numbers[index]
            index += 1
        elif isinstance(step, GotoStep):
            index = step.step
        elif isinstance(step, IfStep):
            index = _choose(step, values)
        else:
            loop = loops.get(index) or _Loop(step, values, loop_timeout_ns)
            loops[index] = loop
            here, index = index, loop.advance()
            if index == step.exit_step:
                del loops[here]


def _choose(step: IfStep, values: Values) -> int:
    """Enter a branch, which reads and writes the values of the IF itself. Returns the index of its first step."""
    if _is_true(values.slot(step.condition)):
        inner_inputs, inner_outputs, index = step.then_inputs, step.then_outputs, step.then_step
    else:
        inner_inputs, inner_outputs, index = step.else_inputs, step.else_outputs, step.else_step
    values.hand_on(values.slots(step.inputs), inner_inputs)
    values.hand_on(values.slots(step.outputs), inner_outputs)
    return index


class _Loop:
    """One activation of a WHILE."""

    def __init__(self, step: WhileStep, values: Values, timeout_ns: int) -> None:
        self._step = step
        self._values = values
        self._timeout_ns = timeout_ns
        self._end = now_ns() + timeout_ns
        self._current = values.slots(step.inputs)
        self._round = 0
        self._decides = False

    def advance(self) -> int:
        """Go from the condition to the body or exit, or to the next round's condition; the next step's index."""
        step = self._step
        if not self._decides:
            self._decides = True
            if self._round:
                self._current[: len(step.body_outputs)] = self._values.slots(step.body_outputs)
            self._values.hand_on(self._current, step.condition_inputs)
            return step.condition_step
        self._decides = False
        if not _is_true(self._values.slot(step.condition_output)):
            self._leave()
            return step.exit_step
        if now_ns() > self._end:
            raise LoopTimeoutError(self._timeout_ns)
        self._values.hand_on(self._current, step.body_inputs)
        self._values.hand_on(self._values.turns(step.body_outputs, self._round), step.body_outputs)
        self._round += 1
        return step.body_step

    def _leave(self) -> None:
        """Store the first of the current values as the outputs of the WHILE."""
        outputs = self._values.slots(self._step.outputs)
        for source, destination in zip(self._current, outputs, strict=False):
            if not destination.store(source.read(), source.dimensions):
                raise OutputTooSmallError(_RUNTIME, [OutputReport(destination.name, source.dimensions, False)])


def _is_true(slot: Slot) -> bool:
    value = slot.read()
    if not len(value):
        general_failure("a condition has no value")
    return bool(value[0])
