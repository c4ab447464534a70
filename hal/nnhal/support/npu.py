"""Operations that an NPU for 8-bit networks takes, and its reasons to refuse the others.

The conditions for every operation are here: types, constants, known dimensions and their limits. Those of single
operations are the NPU's own rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from nnhal.extensions import type_in_words
from nnhal.operations import DEFINITIONS, OperationContext, type_name
from nnhal.operations.operand_types import QUANT8
from nnhal.resolved import ResolvedModel
from nnhal.support import SUPPORTED, OperationLimit, Support, Unsupported
from nnhal.support.rules import Check, SupportRule, anything, first_input, first_objection, walk
from nnhal.types import Operand, Operation, OperationType
from nnhal.types.layout import Dimensions, combine, describe, is_extension

MAX_RANK = 4
_ALLOWED_TYPES = "TENSOR_QUANT8_ASYMM or TENSOR_QUANT8_ASYMM_SIGNED"
_ELSEWHERE = "place it on a CPU or GPU device"
_KNOWN = "fix the dimensions in the model: stripes are planned when it is prepared"


def npu_rule(
    constants: tuple[int, ...] = (),
    check: Check = anything,
    tensors: Callable[[OperationContext], Sequence[int]] = first_input,
) -> SupportRule:
    """Return the rule of an operation on 8-bit values. ``check`` is called if all else holds."""
    return SupportRule(QUANT8, constants, check, tensors)


def as_images(dimensions: Dimensions) -> tuple[int, int, int, int]:
    """Batch, height, width and channels of a tensor of up to 4 axes; missing axes are 1, in front."""
    batch, height, width, channels = (1,) * (MAX_RANK - len(dimensions)) + dimensions
    return batch, height, width, channels


def known_dimensions(name: str, dimensions: Dimensions, hint: str) -> Support:
    """Refuse a tensor with an unknown dimension. ``name`` says which, ``hint`` why they must be known."""
    if dimensions and 0 not in dimensions:
        return SUPPORTED
    got = f"{name} of {describe(dimensions) if dimensions else 'unknown rank'}"
    return Unsupported("DYN_SHAPE", got, "dimensions that are known beforehand", hint)


def allowed_rank(name: str, dimensions: Dimensions) -> Support:
    """Refuse a tensor of more axes than an NPU has."""
    if len(dimensions) <= MAX_RANK:
        return SUPPORTED
    hint = "fold axes together with RESHAPE"
    return Unsupported("RANK", f"{name} of rank {len(dimensions)}", f"rank 1 to {MAX_RANK}", hint)


def listed(numbers: Sequence[int]) -> str:
    """Numbers as people read them: ``1, 2 or 3``."""
    return f"{', '.join(str(number) for number in numbers[:-1])} or {numbers[-1]}"


def channels_last(channels_first: bool) -> Support:
    if not channels_first:
        return SUPPORTED
    hint = "the framework lays them out so if that takes less time; other clients transpose before and after"
    return Unsupported("LAYOUT", "images of [batch, channels, height, width]", "channels last (NHWC)", hint)


@dataclass(frozen=True, slots=True)
class NpuSupport:
    name: str
    """The driver's."""
    rules: Mapping[OperationType, SupportRule]
    """The rules of the operations that it has."""
    hints: Mapping[OperationType, str]
    """Advice for operations that are often asked for, and that it does not have."""
    max_side: int
    """The largest height and width of a tensor."""
    max_depth: int
    """The largest number of channels."""
    check: Check = anything
    """A condition for every operation."""

    def operation_limits(self) -> list[OperationLimit]:
        return [self._limit(code, rule) for code, rule in sorted(self.rules.items())]

    def supported_operations(self, model: ResolvedModel) -> list[Support]:
        def other(_: int, operation: Operation) -> Support | None:
            if is_extension(operation.type):
                return self._not_taken(f"operation {type_in_words(model.model, operation.type)}")
            return None if operation.type in DEFINITIONS else self._none_for(OperationType(operation.type))

        return list(walk(model, self._answer, other, "make its operands fit one another"))

    def _answer(self, op: OperationContext, found: Sequence[Dimensions], _: str) -> Support:
        rule = self.rules.get(op.type)
        if rule is None:
            return self._none_for(op.type)
        answer = first_objection(self._of_any_operation(op, rule, found))
        return answer if isinstance(answer, Unsupported) else rule.check(op)

    def _limit(self, code: OperationType, rule: SupportRule) -> OperationLimit:
        return rule.limit(
            code,
            _ALLOWED_TYPES,
            f"known dimensions of rank 1 to {MAX_RANK}, batch 1",
            f"height and width of at most {self.max_side}, and {self.max_depth} channels",
        )

    def _none_for(self, kind: OperationType) -> Unsupported:
        return self._not_taken(kind.name, self.hints.get(kind, _ELSEWHERE))

    def _not_taken(self, got: str, hint: str = _ELSEWHERE) -> Unsupported:
        return Unsupported("OP", got, f"one of the {len(self.rules)} operations that {self.name}'s README lists", hint)

    def _of_any_operation(
        self, op: OperationContext, rule: SupportRule, found: Sequence[Dimensions]
    ) -> Iterator[Support]:
        """The conditions for every operation, in an order in which each check may rely on those before it."""
        tensors = [(f"input {index}", op.inputs[index], op.dimensions(index)) for index in rule.tensors(op)]
        tensors += [
            (f"output {index}", operand, combine(operand.dimensions, dimensions) or ())
            for index, (operand, dimensions) in enumerate(zip(op.outputs, found or [()] * len(op.outputs), strict=True))
        ]
        for name, operand, _ in tensors:
            yield _typed(name, operand)
        yield _constant(op, rule)
        for name, _, dimensions in tensors:
            yield from self.of_tensor(name, dimensions)
        yield self.check(op)

    def of_tensor(self, name: str, dimensions: Dimensions) -> Iterator[Support]:
        """Yield the answers for the dimensions of an activation, which ``name`` tells apart."""
        yield known_dimensions(name, dimensions, _KNOWN)
        yield allowed_rank(name, dimensions)
        yield self._sized(name, dimensions)

    def _sized(self, name: str, dimensions: Dimensions) -> Support:
        batch, height, width, depth = as_images(dimensions)
        got = f"{name} of {describe(dimensions)}"
        if batch != 1:
            hint = "run the images of a batch one after the other, and leave axis 0 of 4 where it is"
            return Unsupported("SHAPE", got, "batch 1", hint)
        if max(height, width) > self.max_side:
            return Unsupported("SHAPE", got, f"height and width of at most {self.max_side}", "cut the image into tiles")
        if depth > self.max_depth:
            return Unsupported(
                "SHAPE", got, f"at most {self.max_depth} channels", "split the tensor along its channels"
            )
        return SUPPORTED


def _typed(name: str, operand: Operand) -> Support:
    if operand.type in QUANT8:
        return SUPPORTED
    hint = "quantise the network to 8 bits: the NPU has no other arithmetic"
    return Unsupported("DTYPE", f"{name} of {type_name(operand.type)}", _ALLOWED_TYPES, hint)


def _constant(op: OperationContext, rule: SupportRule) -> Support:
    index = rule.variable(op)
    if index is None:
        return SUPPORTED
    hint = "store it in the model: filters and parameters are encoded when the model is prepared"
    return Unsupported("CONSTANT", f"input {index} that is computed or fed at run time", "a constant", hint)
