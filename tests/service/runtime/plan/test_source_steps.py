"""Steps in the source form: which devices get them, and what they cannot take otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from nnhal.types import Model, Operand, OperandLifeTime, OperandType, OperationType
from nnhal_frontends.builder import ModelBuilder
from nnhal_frontends.imported import ImportedModel
from nnhal_service.partition import Candidate, Plan, Step, whole
from nnhal_service.runtime.plan.source_steps import NOT_ALONE, SourceSteps, taking_in_words
from tests.support.scripted import CAPABILITIES


class Words:
    """A source form that has words for all steps but those of certain numbers of inputs; it counts what it is asked."""

    extension = "words"

    def __init__(self, wordless: int = -1) -> None:
        self.asked = 0
        self._wordless = wordless

    def model_of(self, step: Model, inputs: Sequence[int], outputs: Sequence[int]) -> Model | None:
        self.asked += 1
        return None if len(inputs) == self._wordless else replace(step, operand_values=b"words")


def imported(form: Words) -> ImportedModel:
    """Return y = tanh(x) with a source form."""
    builder = ModelBuilder()
    x = builder.add(Operand(OperandType.TENSOR_FLOAT32, (2,), lifetime=OperandLifeTime.SUBGRAPH_INPUT))
    y = builder.add(Operand(OperandType.TENSOR_FLOAT32, (2,), lifetime=OperandLifeTime.SUBGRAPH_OUTPUT))
    builder.operation(OperationType.TANH, [x], [y])
    return ImportedModel(builder.build([x], [y]), (), (), ((),), (), ("x", "y"), source=form)


def test_a_device_that_prefers_the_source_form_gets_it_and_another_does_not() -> None:
    model = imported(Words())
    steps = SourceSteps(model, {"runtime": {}})
    for device, source in (("runtime", b"words"), ("npu", None)):
        step = steps.of(whole(model.model, device))
        assert (step.source and step.source.operand_values) == source
        assert step.model is model.model


@pytest.mark.parametrize("change", [{"carried": (0,)}, {"scope": 1}])
def test_a_step_of_other_types_or_within_control_flow_keeps_the_operations(change: dict[str, object]) -> None:
    model = imported(Words())
    step = replace(whole(model.model, "runtime"), **change)  # type: ignore[arg-type]
    assert SourceSteps(model, {"runtime": {}}).of(step) is step


def test_a_form_is_asked_of_a_step_once() -> None:
    form = Words()
    model = imported(form)
    steps = SourceSteps(model, {"runtime": {0: "unknown"}})
    step = whole(model.model, "runtime")
    assert not list(steps.failed(step))
    assert [each.source is not None for each in steps.plan(Plan((step,))).steps] == [True]
    assert form.asked == 1


@pytest.mark.parametrize(("only", "failed"), [({}, []), ({0: "unknown"}, [([0], f"unknown; {NOT_ALONE}")])])
def test_a_step_without_words_fails_where_the_device_needs_them(only: dict[int, str], failed: list[object]) -> None:
    model = imported(Words(wordless=1))
    step = whole(model.model, "runtime")
    steps = SourceSteps(model, {"runtime": only})
    assert list(steps.failed(step)) == failed
    assert steps.of(step).source is None


def test_what_is_taken_in_words_only_costs_as_much_as_on_the_fastest_other_device() -> None:
    refusing = candidate("runtime", {1: "unknown", 2: "unknown"}, (5.0, 0.0, 0.0))
    others = [candidate("a", {}, (9.0, 8.0, None)), candidate("b", {}, (9.0, 3.0, 0.0)), candidate("c", {}, ())]
    taking = taking_in_words(refusing, others)
    assert not taking.refusals
    assert taking.operation_ns == [5.0, 3.0, 5.0]
    assert taking_in_words(candidate("runtime", {1: "unknown"}, ()), others).operation_ns == []


def candidate(name: str, refusals: dict[int, str], costs: Sequence[float | None]) -> Candidate:
    return Candidate(name, CAPABILITIES, refusals, costs)


def test_a_plan_of_a_model_without_a_source_form_is_left_as_it_is() -> None:
    model = replace(imported(Words()), source=None)
    step: Step = whole(model.model, "runtime")
    assert SourceSteps(model, {}).plan(Plan((step,))).steps == (step,)
