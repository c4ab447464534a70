"""Facts that the rules of shapes read: an operator's inputs and attributes, with errors that name the place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

from nnhal.types.layout import describe
from nnhal_mlip.flow.errors import FlowError
from nnhal_mlip.flow.graph.flow_graph import Attribute, FlowValue


@dataclass(frozen=True, slots=True)
class Inference:
    """An operator whose result is wanted."""

    operator: str
    inputs: Sequence[FlowValue]
    attributes: Mapping[str, Attribute]
    place: str
    """The user's name of the node, for messages."""

    def refuse(self, got: str, expected: str) -> NoReturn:
        """Raise FlowError."""
        raise FlowError(f"node '{self.place}' ({self.operator}): got {got}, expected {expected}")

    def require_ranks(self, index: int, *ranks: int) -> tuple[int, ...]:
        """Return the shape of an input that has one of some ranks."""
        shape = self.inputs[index].shape
        if len(shape) not in ranks:
            allowed = " or ".join(map(str, ranks))
            self.refuse(f"input {index} of shape {describe(shape)}", f"rank {allowed}")
        return shape

    def integer(self, name: str) -> int:
        value = self._attribute(name)
        if not isinstance(value, int):
            self.refuse(f"{name} {value!r}", "an integer")
        return value

    def flag(self, name: str) -> bool:
        return bool(self.integer(name))

    def real(self, name: str) -> float:
        value = self._attribute(name)
        if isinstance(value, str | tuple):
            self.refuse(f"{name} {value!r}", "a number")
        return float(value)

    def integers(self, name: str, count: int | None = None, least: int | None = None) -> tuple[int, ...]:
        """Return an attribute that is a tuple of integers, of a length and with a least value if they are given."""
        value = self._attribute(name)
        wrong = not isinstance(value, tuple) or (count is not None and len(value) != count)
        if not isinstance(value, tuple) or wrong or (least is not None and min(value, default=least) < least):
            number = "integers" if count is None else f"{count} integers"
            self.refuse(f"{name} {value!r}", number if least is None else f"{number} of at least {least}")
        return value

    def word(self, name: str, *, letters: str) -> str:
        """Return a layout with given letters, in any order."""
        value = self._attribute(name)
        if not isinstance(value, str) or sorted(value) != sorted(letters):
            self.refuse(f"{name} {value!r}", f"a layout with the letters {letters}")
        return value

    def axis(self, name: str, rank: int) -> int:
        """Return an axis, counted from the front."""
        return self.front(name, self.integer(name), rank)

    def axes(self, name: str, rank: int) -> tuple[int, ...]:
        """Return axes, counted from the front, each once."""
        found = tuple(self.front(name, axis, rank) for axis in self.integers(name))
        if len(set(found)) != len(found):
            self.refuse(f"{name} {self.attributes[name]!r}", "each axis once")
        return found

    def front(self, name: str, axis: int, rank: int) -> int:
        """Return an axis of a rank counted from the front."""
        if not -rank <= axis < rank:
            self.refuse(f"{name} {axis}", f"an axis of {rank}")
        return axis % rank

    def _attribute(self, name: str) -> Attribute:
        if name not in self.attributes:
            self.refuse(f"attributes {sorted(self.attributes)}", f"also {name}")
        return self.attributes[name]
