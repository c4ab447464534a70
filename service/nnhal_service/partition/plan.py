"""Plans: the steps of a model over devices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from nnhal.types import Model


class Fallback(Enum):
    """Choice if a device fails: continue without it, continue and warn, or fail."""

    ALLOW = "allow"
    WARN = "warn"
    DENY = "deny"


@dataclass(frozen=True, slots=True)
class Step:
    """Operations that one device runs as one prepared model. Indexes refer to the source subgraph."""

    device: str
    model: Model
    """The operations as a model of their own."""
    operations: tuple[int, ...]
    inputs: tuple[int, ...]
    """The source operand of each input of ``model``, in its order."""
    outputs: tuple[int, ...]
    """The source operand of each output of ``model``, in its order."""
    downstream: tuple[int, ...] = ()
    """The outputs of the source that other steps read too: those read them from the client's memory."""
    scope: int = 0
    """The scope of the source subgraph in a CompoundPlan; 0 is main."""
    carried: tuple[int, ...] = ()
    """The inputs and outputs that pass in another element type: ``model`` begins and ends with CASTs for them."""
    source: Model | None = None
    """The source form, which ``device`` prepares in place of ``model``."""


class SourceOperand(NamedTuple):
    """An operand of the subgraph of a scope."""

    scope: int
    operand: int


@dataclass(frozen=True, slots=True)
class IfStep:
    """Continue with ``then_step`` if the condition is true, otherwise with ``else_step``."""

    operation: int
    condition: SourceOperand
    inputs: tuple[SourceOperand, ...]
    """The values of the inputs of both branches."""
    outputs: tuple[SourceOperand, ...]
    """They take the values of the outputs of the branch that was chosen."""
    then_step: int
    then_inputs: tuple[SourceOperand, ...]
    then_outputs: tuple[SourceOperand, ...]
    else_step: int
    else_inputs: tuple[SourceOperand, ...]
    else_outputs: tuple[SourceOperand, ...]


@dataclass(frozen=True, slots=True)
class WhileStep:
    """Continue with ``condition_step``, then with ``body_step`` if its output is true, otherwise with ``exit_step``."""

    operation: int
    inputs: tuple[SourceOperand, ...]
    """The inputs of condition and body in the first iteration. Later the body's outputs replace the first of them."""
    outputs: tuple[SourceOperand, ...]
    """They take the first of the inputs on exit."""
    condition_step: int
    condition_inputs: tuple[SourceOperand, ...]
    condition_output: SourceOperand
    body_step: int
    body_inputs: tuple[SourceOperand, ...]
    body_outputs: tuple[SourceOperand, ...]
    exit_step: int


@dataclass(frozen=True, slots=True)
class GotoStep:
    """Continue with another step; the number after the last step is the end."""

    step: int


CompoundStep = Step | IfStep | WhileStep | GotoStep


@dataclass(frozen=True, slots=True)
class CompoundPlan:
    """A plan with control flow that the framework walks: its steps say which step follows."""

    steps: tuple[CompoundStep, ...]
    scopes: tuple[int, ...]
    """The subgraph of each scope: 0 is main, n + 1 is referenced subgraph n."""

    @property
    def has_control_flow(self) -> bool:
        """Return whether any step is one of control flow."""
        return len(self.executable) < len(self.steps)

    @property
    def executable(self) -> tuple[Step, ...]:
        """The steps that devices run."""
        return tuple(step for step in self.steps if isinstance(step, Step))

    def layout(self) -> list[str]:
        """Return a word for each step: the device, or IF, WHILE, GOTO."""
        words: Mapping[type, str] = {IfStep: "IF", WhileStep: "WHILE", GotoStep: "GOTO"}
        return [step.device if isinstance(step, Step) else words[type(step)] for step in self.steps]


@dataclass(frozen=True, slots=True)
class Plan:
    """The steps of a model over devices, in an order in which they can be executed."""

    steps: tuple[Step, ...]
    fallback: Fallback = Fallback.ALLOW
    walk: CompoundPlan | None = None
    """Given if the framework walks control flow. It sets the order of the steps, which are its executable ones."""
    carried: Mapping[int, int] = field(default_factory=dict)
    """The element type of each operand of main that passes between steps in another type than its own."""

    def subgraph_of(self, step: Step) -> int:
        """Return the subgraph that a step's indexes refer to: 0 is main, n + 1 is referenced subgraph n."""
        return self.walk.scopes[step.scope] if self.walk is not None else 0
