"""Reduce tests that fail to the least that fails in the same way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np

from nnhal.arrays import Array
from nnhal.errors import DeadObjectError, HalError
from nnhal.operations import type_name
from nnhal.resolved import inline_constants
from nnhal.types import DataLocation, ErrorStatus, Model, OperandLifeTime
from nnhal.types.layout import ELEMENT_TYPES, describe
from nnhal_tools.conformance.runner import ENDED, UNWRITTEN, VALUES, TestResult, Verdict
from nnhal_tools.conformance.surviving import SurvivingRunner
from nnhal_tools.conformance.vectors import Vector, vector_of
from nnhal_tools.hal_runner import run_on
from nnhal_tools.shrink import Branch, Case, shrink
from nnhal_tools.up import RenewableDevice

REFERENCE = "cpu_ref"
"""The driver that says what smaller tests expect."""
_LEAST = "least of "
_OUT_OF_TIME = (ENDED, ErrorStatus.MISSED_DEADLINE_TRANSIENT.name, ErrorStatus.MISSED_DEADLINE_PERSISTENT.name)
"""How a test fails that may take too long: its reduced form keeps the deadline."""
_UNREPEATED = (
    "run once more, it does not fail so",
    "run once more, the device does not die so: what was run before it may be the cause",
)
"""Why a test that does not fail again is not reduced: in general, and if the device had died of it."""


@dataclass(frozen=True, slots=True)
class Reduction:
    """A test that fails, and the least that was found to fail in the same way."""

    result: TestResult
    """How the test fails."""
    vector: Vector
    """The least test that fails so; the test itself if it could not be reduced."""
    reason: str
    """What the device gives of it, and what is expected."""
    tries: int
    """Simpler forms that were run, and the test itself."""
    is_least: bool
    """Whether no simpler form fails so; else the search ended before."""
    problem: str = ""
    """Why it could not be reduced; empty if it was."""


class Reducer:
    """Reduces tests that fail on a device in one way of executing them."""

    def __init__(
        self, device: RenewableDevice, reference: RenewableDevice, most_tries: int, seconds: float | None = None
    ) -> None:
        """``reference`` runs the REFERENCE. ``most_tries`` is how many forms of one test are run.

        ``seconds`` limits each preparation and each execution on the device; None sets no deadline.
        """
        self._device, self._reference, self._most_tries, self._seconds = device, reference, most_tries, seconds

    def reduce(self, vector: Vector, result: TestResult) -> Reduction:
        """Reduce a test with the result of one way of executing it.

        Raises StartError if a device cannot be started again, DeadObjectError if a running one does not come back.
        """
        runner = SurvivingRunner(
            self._device, [(result.mode, result.memory)], self._seconds, result.failure == UNWRITTEN
        )
        (again,) = runner.run(vector)
        if not fails_alike(again, result):
            return Reduction(result, vector, result.reason, 1, False, _UNREPEATED[result.failure == ENDED])
        judge = _Judge(runner, self._reference, vector, again, self._seconds)
        if problem := judge.problem():
            return Reduction(result, vector, again.reason, 1, False, problem)
        try:
            found = shrink(_case(vector), judge, self._most_tries)
        except HalError as error:
            return Reduction(result, vector, again.reason, 1, False, f"its model is invalid: {error.message}")
        if found is None:
            problem = f"with the values and dimensions that {REFERENCE} computes, it does not fail so"
            return Reduction(result, vector, again.reason, 2, False, problem)
        least = judge.vector(found.case)
        if least is None:
            return Reduction(result, vector, again.reason, found.tries + 1, False, f"{REFERENCE} is not repeatable")
        (last,) = runner.run(least)
        return Reduction(result, least, last.reason or "this time it passes", found.tries + 1, found.is_least)


def fails_alike(one: TestResult, other: TestResult) -> bool:
    """Return whether two tests fail in the same way: if the device dies of them, by the same signal or status."""
    return one.failure == other.failure and (one.failure != ENDED or one.reason == other.reason)


def reduction_words(reduction: Reduction) -> str:
    """Say in one line what a test is reduced to, and what remains wrong."""
    result, vector = reduction.result, reduction.vector
    place = f"{result.name}, {result.mode} over {result.memory}"
    if reduction.problem:
        return f"{place}: not reduced: {reduction.problem}"
    main = vector.model.main
    inputs = [main.operands[index] for index in main.input_indexes]
    described = [f"{type_name(operand.type)} {describe(operand.dimensions)}" for operand in inputs]
    counted = [(words, len(list(same))) for words, same in groupby(described)]
    given = ", ".join(words if count == 1 else f"{count} times {words}" for words, count in counted) or "constants"
    tries = f"{reduction.tries} tries" + ("" if reduction.is_least else ", the search ended there")
    return f"{place}: {' + '.join(vector.operations)} of {given}: {reduction.reason} ({tries})"


@dataclass(slots=True)
class _Judge:
    """Says whether a case fails as the test did, by the rules of conformance and with the reference's outputs."""

    runner: SurvivingRunner
    reference: RenewableDevice
    test: Vector
    result: TestResult
    seconds: float | None

    def problem(self) -> str:
        """Say why nothing can be said of smaller forms of the test; empty if something can."""
        if self.test.multinomial_tolerance and self.result.failure == VALUES:
            return "its outputs are random"
        if self.test.expect_failure:
            return ""
        (right,) = SurvivingRunner(self.reference, [(self.result.mode, self.result.memory)]).run(self.test)
        return "" if right.verdict == Verdict.PASSED else f"{REFERENCE} does not pass it either: {right.reason}"

    def fails(self, case: Case) -> bool:
        vector = self.vector(case)
        if vector is None:
            return False
        (result,) = self.runner.run(vector)
        return fails_alike(result, self.result)

    def inner_values(self, case: Case) -> Mapping[int, Array]:
        shown = replace(case, outputs=case.computed)
        outputs = self._expected(shown.model(), shown.given)
        return {} if outputs is None else dict(zip(shown.outputs, outputs, strict=True))

    def vector(self, case: Case) -> Vector | None:
        """Return a case as a test with what the reference makes of it; None if it makes something else than the test.

        That is a refusal if a result was expected, and a result if a refusal was.
        """
        known = self.inner_values(case) if case.has_open_dimensions else {}
        case = case.with_dimensions({operand: array.shape for operand, array in known.items()})
        model = case.model()
        outputs = self._expected(model, case.given)
        if (outputs is None) != self.test.expect_failure:
            return None
        if outputs is None:
            described = [case.operands[operand] for operand in case.outputs]
            outputs = [np.zeros(operand.dimensions, ELEMENT_TYPES[operand.type]) for operand in described]
        vector = vector_of(
            f"{_LEAST}{self.test.name}",
            self.test.group,
            model,
            case.given,
            outputs,
            case.uncompared,
            self.test.half,
            self.test.expect_failure,
        )
        return replace(
            vector,
            names=case.names,
            mode=self.result.mode,
            memory=self.result.memory,
            limits=self.test.limits,
            seconds=(self.seconds or self.test.seconds) if self.result.failure in _OUT_OF_TIME else None,
            paints=self.result.failure == UNWRITTEN,
        )

    def _expected(self, model: Model, inputs: Sequence[Array]) -> list[Array] | None:
        """Return what the reference computes; None if it refuses."""
        remote = self.reference.remote
        try:
            if not all(remote.supported_operations(model)):
                return None
            (outputs,) = run_on(remote, model, [inputs])
        except HalError:
            return None
        except DeadObjectError:
            self.reference.renew()
            return None
        return outputs


def _case(vector: Vector) -> Case:
    """Return a test as a case: inputs that have no value are omitted in the model."""
    main = vector.model.main
    given = {index: array for index, array in zip(main.input_indexes, vector.inputs, strict=True) if array is not None}
    omitted = set(main.input_indexes) - set(given)
    operands = tuple(
        replace(operand, lifetime=OperandLifeTime.NO_VALUE, location=DataLocation())
        if number in omitted
        else replace(operand, dimensions=given[number].shape)
        if number in given
        else operand
        for number, operand in enumerate(main.operands)
    )
    main_constants, *constants = inline_constants(vector.model)
    outputs = zip(main.output_indexes, vector.outputs, strict=True)
    return Case(
        operands,
        main.operations,
        tuple(given),
        main.output_indexes,
        {**main_constants, **given},
        vector.model.relax_computation_float32_to_float16,
        frozenset(number for number, expected in outputs if not expected.compared),
        tuple(Branch(graph, values) for graph, values in zip(vector.model.referenced, constants, strict=True)),
        vector.names,
    )
