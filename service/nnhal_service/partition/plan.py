"""What a partitioner yields."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from nnhal.types import Model


class Fallback(Enum):
    """What to do when a device fails: go on without it, go on and say so, or fail."""

    ALLOW = "allow"
    WARN = "warn"
    DENY = "deny"


@dataclass(frozen=True, slots=True)
class Step:
    """A part of a model for one device.

    ``operations``, ``inputs`` and ``outputs`` are indexes into the source subgraph, which is main unless control flow
    is walked by the runtime (then ``scope`` tells); ``inputs`` and ``outputs`` name the operands that the step model's
    inputs and outputs stand for, in its order. ``downstream`` are those of the source's own outputs that other steps
    read too: they lie in the client's memory, and are taken from there.
    """

    device: str
    model: Model
    operations: tuple[int, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    downstream: tuple[int, ...] = ()
    scope: int = 0


class SourceOperand(NamedTuple):
    """An operand of a scope."""

    scope: int
    operand: int


@dataclass(frozen=True, slots=True)
class IfStep:
    """Go on with ``then_step`` where the condition is true, else with ``else_step``.

    ``inputs`` are the values of both branches' inputs, ``outputs`` take those of the branch's outputs.
    """

    operation: int
    condition: SourceOperand
    inputs: tuple[SourceOperand, ...]
    outputs: tuple[SourceOperand, ...]
    then_step: int
    then_inputs: tuple[SourceOperand, ...]
    then_outputs: tuple[SourceOperand, ...]
    else_step: int
    else_inputs: tuple[SourceOperand, ...]
    else_outputs: tuple[SourceOperand, ...]


@dataclass(frozen=True, slots=True)
class WhileStep:
    """Go on with ``condition_step``; after that with ``body_step`` where its output is true, else with ``exit_step``.

    ``inputs`` are the values of the condition's and the body's inputs in the first round; after that the first ones are
    the body's outputs. On exit the first ones go to ``outputs``.
    """

    operation: int
    inputs: tuple[SourceOperand, ...]
    outputs: tuple[SourceOperand, ...]
    condition_step: int
    condition_inputs: tuple[SourceOperand, ...]
    condition_output: SourceOperand
    body_step: int
    body_inputs: tuple[SourceOperand, ...]
    body_outputs: tuple[SourceOperand, ...]
    exit_step: int


@dataclass(frozen=True, slots=True)
class GotoStep:
    """Go on with another step; the one after the last is the end."""

    step: int


LogicalStep = Step | IfStep | WhileStep | GotoStep


@dataclass(frozen=True, slots=True)
class LogicalPlan:
    """Steps, of which those of control flow say where to go on. ``scopes`` are subgraphs: 0 is main."""

    steps: tuple[LogicalStep, ...]
    scopes: tuple[int, ...]

    def flat(self) -> Plan | None:
        """The plan, where the runtime has no control flow to walk."""
        return Plan(self.executable) if len(self.executable) == len(self.steps) else None

    @property
    def executable(self) -> tuple[Step, ...]:
        """The steps that devices run."""
        return tuple(step for step in self.steps if isinstance(step, Step))

    def layout(self) -> list[str]:
        """The steps in a word each: the device, or IF, WHILE, GOTO."""
        words: Mapping[type, str] = {IfStep: "IF", WhileStep: "WHILE", GotoStep: "GOTO"}
        return [step.device if isinstance(step, Step) else words[type(step)] for step in self.steps]


@dataclass(frozen=True, slots=True)
class Plan:
    """Steps in an order in which they can be executed, unless ``walk`` says in which order the runtime goes over them.

    Those of a walk are its own, without the steps of control flow.
    """

    steps: tuple[Step, ...]
    fallback: Fallback = Fallback.ALLOW
    walk: LogicalPlan | None = None

    def subgraph_of(self, step: Step) -> int:
        """The subgraph that a step's indexes refer to: 0 is main, then come those that are referred to."""
        return self.walk.scopes[step.scope] if self.walk is not None else 0
