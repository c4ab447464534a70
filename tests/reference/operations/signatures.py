"""Types and ranks of operands that the validation of an operation lets pass, found by asking it.

An operation's ``validate`` is given a signature that writes down each check instead of making it, and gives each
operand the type that the check allows. One pass for each type of the first tensor shows which types go together.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum

from nnhal.errors import HalError
from nnhal.operations import DEFINITIONS, OperationContext, OperationDefinition, Signature
from nnhal.types import ChannelQuant, Operand, OperandType

_FEW, _MANY = 3, 64
"""Operands to begin with. A form with many inputs is told from one with few by the type of one that the other lacks."""
_PER_CHANNEL = OperandType.TENSOR_QUANT8_SYMM_PER_CHANNEL
_PAIRS = {
    "float": (OperandType.TENSOR_FLOAT32, OperandType.TENSOR_FLOAT16),
    "quant8": (OperandType.TENSOR_QUANT8_ASYMM, OperandType.TENSOR_QUANT8_ASYMM_SIGNED),
}
_PASSES = ((OperandType.BOOL, _FEW), (OperandType.BOOL, _MANY), (OperandType.INT32, _MANY))


@dataclass
class OperandUse:
    """An input or output."""

    types: dict[OperandType, set[OperandType]] = field(default_factory=dict)
    """Its types, by the type of the first tensor."""
    optional: bool = False
    """Whether it may be NO_VALUE."""

    @property
    def all_types(self) -> list[OperandType]:
        """All its types."""
        return sorted(set().union(*self.types.values()))

    @property
    def follows_first(self) -> bool:
        """True if it always has the type of the first tensor."""
        return all(allowed == {main} for main, allowed in self.types.items())


@dataclass
class Form:
    """One of the forms of an operation's inputs."""

    names: type[IntEnum] | None
    counts: tuple[int, ...]
    """How many inputs there may be."""
    main: int
    """The first tensor that the others are compared with."""
    inputs: dict[int, OperandUse] = field(default_factory=dict)
    outputs: dict[int, OperandUse] = field(default_factory=dict)


class _SignatureProbe(Signature):
    """Writes down the checks of one validation."""

    def __init__(self, context: OperationContext, preferred: OperandType) -> None:
        super().__init__(context)
        self.names: type[IntEnum] | None = None
        self.counts: tuple[int, ...] = ()
        self.used: dict[int, set[OperandType]] = {}
        self.optional: set[int] = set()
        self.written: dict[int, set[OperandType]] = {}
        self.main: OperandType | None = None
        self.main_index = 0
        self._preferred = preferred

    def count(
        self,
        inputs: int | tuple[int, ...] | range,
        outputs: int | tuple[int, ...] = 1,
        names: type[IntEnum] | None = None,
    ) -> int:
        self.names = names
        self.counts = _counts(inputs)
        self.context.inputs = self.inputs = _resized(self.context.inputs, max(self.counts))
        self.context.outputs = self.outputs = _resized(self.context.outputs, max(_counts(outputs)))
        return len(self.inputs)

    def tensor(
        self,
        index: int,
        types: dict[OperandType, int],
        rank: int | tuple[int, int] | None = None,
        optional: bool = False,
    ) -> OperandType:
        del rank
        chosen = self._preferred if self._preferred in types else next(iter(types))
        if self.main is None:
            self.main, self.main_index = chosen, index
            self.used[index] = {chosen}
        self.used.setdefault(index, set(types))
        if optional:
            self.optional.add(index)
        self.context.inputs = self.inputs = _with(self.context.inputs, index, chosen)
        return chosen

    def scalar(self, index: int, type: OperandType, since: int = 1) -> None:  # noqa: A002 - as in Signature
        del since
        if index < len(self.inputs):
            self.used.setdefault(index, {type})
            self.context.inputs = self.inputs = _with(self.context.inputs, index, type)

    def output(
        self,
        index: int,
        types: OperandType | dict[OperandType, int],
        rank: int | tuple[int, int] | None = None,
    ) -> OperandType:
        del rank
        allowed = types if isinstance(types, dict) else {types: 1}
        chosen = self._preferred if self._preferred in allowed else next(iter(allowed))
        self.written.setdefault(index, set(allowed))
        self.context.outputs = self.outputs = _with(self.context.outputs, index, chosen)
        return chosen


def forms_of(definition: OperationDefinition) -> list[Form]:
    """Return the forms of an operation, the implicit one first."""
    forms: dict[type[IntEnum] | None, Form] = {}
    for probe in _probes(definition):
        if probe.main is None:
            raise ValueError(f"{definition.type.name}: no input is a tensor")
        form = forms.setdefault(probe.names, Form(probe.names, probe.counts, probe.main_index))
        for index, types in probe.used.items():
            use = form.inputs.setdefault(index, OperandUse())
            use.types.setdefault(probe.main, set()).update(types)
            use.optional |= index in probe.optional
        for index, types in probe.written.items():
            form.outputs.setdefault(index, OperandUse()).types.setdefault(probe.main, set()).update(types)
    return list(forms.values())


def all_forms() -> Iterator[tuple[OperationDefinition, list[Form]]]:
    """Yield every operation in the order of its number, with its forms."""
    for code in sorted(DEFINITIONS):
        yield DEFINITIONS[code], forms_of(DEFINITIONS[code])


def _probes(definition: OperationDefinition) -> Iterator[_SignatureProbe]:
    for initial, operands in _PASSES:
        for preferred in OperandType:
            context = OperationContext(
                definition.type, definition.type.name, [Operand(initial)] * operands, [Operand(initial)], lambda _: None
            )
            probe = _SignatureProbe(context, preferred)
            with contextlib.suppress(HalError):  # of quantisation, which comes after all that is asked
                definition.validate(probe)
            has_any_number = len(probe.counts) == 1 and probe.counts[0] == operands == _MANY
            if not has_any_number:
                yield probe


def _counts(allowed: int | tuple[int, ...] | range) -> tuple[int, ...]:
    return (allowed,) if isinstance(allowed, int) else tuple(allowed)


def _resized(operands: tuple[Operand, ...], count: int) -> tuple[Operand, ...]:
    return (operands + operands[-1:] * count)[:count]


def _with(operands: tuple[Operand, ...], index: int, code: OperandType) -> tuple[Operand, ...]:
    scale = 1.0 if "QUANT" in code.name and code != _PER_CHANNEL else 0.0
    params = ChannelQuant((1.0,), 0) if code == _PER_CHANNEL else None
    return (*operands[:index], Operand(code, scale=scale, extra_params=params), *operands[index + 1 :])


def describe_types(use: OperandUse, main: int) -> str:
    """Name the types of an operand, shortly if they are those of input ``main``, the first tensor."""
    types = use.all_types
    if use.follows_first and len(types) > 1:
        return f"as input {main}"
    return name_types(types)


def name_types(types: Sequence[OperandType]) -> str:
    """Name types, with *float* and *quant8* for the pairs that most operations take together."""
    left, named = list(types), []
    for name, pair in _PAIRS.items():
        if set(pair) <= set(left):
            named.append(name)
            left = [code for code in left if code not in pair]
    return ", ".join([*named, *(code.name for code in left)])
