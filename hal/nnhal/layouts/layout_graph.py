"""A graph as the decision about layouts sees it: values, and nodes that say how they behave."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeAlias, TypeVar

from nnhal.types.orders import Order

Value = TypeVar("Value", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Converts:
    """A node that reads and computes given orders, whatever arrives. Positions without an order have the model's."""

    inputs: Mapping[int, Order]
    outputs: Mapping[int, Order]


@dataclass(frozen=True, slots=True)
class Follows:
    """A node that can compute in any order that arrives at some of its inputs, which broadcast.

    The order of the first of them that has a known layout wins; the others are brought to it.
    """

    inputs: tuple[int, ...]
    carry: Callable[[Order], Sequence[Order | None] | None]
    """Returns the orders of the outputs for an order of the inputs, None if the node cannot follow that one."""
    leading: int | None = None
    """The only one of the inputs whose layout decides, if it is not that of any: without a known one there, the node
    keeps the model's order."""


@dataclass(frozen=True, slots=True)
class Keeps:
    """A node that needs the model's order."""

    known: bool = False
    """True if its outputs have a known layout, as those of a convolution do."""
    flat: tuple[int, ...] = ()
    """Inputs for which only the sequence of their elements counts."""


@dataclass(frozen=True, slots=True)
class Reorders:
    """A transposition in the model. It only gives what is stored other axes; whoever reads it transposes if need be."""

    axes: Order


Behaviour: TypeAlias = Converts | Follows | Keeps | Reorders


@dataclass(frozen=True, slots=True)
class LayoutNode(Generic[Value]):
    """A node as the decision sees it."""

    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    behaviour: Behaviour


@dataclass(frozen=True, slots=True)
class LayoutGraph(Generic[Value]):
    """Nodes in an order in which they can be computed."""

    nodes: Sequence[LayoutNode[Value]]
    outputs: Sequence[Value]
    shapes: Mapping[Value, tuple[int, ...] | None]
    """In the model's order; None if the rank is unknown. 0 is an unknown length."""
    constants: Collection[Value] = field(default_factory=frozenset)
