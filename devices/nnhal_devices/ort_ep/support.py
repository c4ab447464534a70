"""Operations that a provider takes: only trying can tell, so a session of them is made and run.

One session is tried with all operations that can be lowered to ONNX. Only if the provider does not take them together
is each tried alone. Providers claim nodes that they then fail to run, so a session counts when it has run on zeros.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from nnhal.errors import HalError
from nnhal.resolved import ResolvedModel
from nnhal.support import SUPPORTED, Support, Supported, Unsupported
from nnhal.support.parts import part_of
from nnhal.types import DataLocation, Operand, OperandLifeTime
from nnhal_devices.remembered import Remembered, digest_of

_MOST = 4096


class ProviderSupport:
    """Answer of a provider. Safe to use from several threads."""

    def __init__(
        self,
        name: str,
        lowered: Callable[[ResolvedModel], Sequence[Support]],
        run: Callable[[ResolvedModel], object],
    ) -> None:
        """``lowered`` says which operations can become ONNX; ``run`` tries a model, and raises HalError."""
        self._name = name
        self._lowered = lowered
        self._run = run
        self._known: Remembered[str] = Remembered(_MOST)

    def of(self, model: ResolvedModel) -> list[Support]:
        """Answer for each operation of main."""
        answers = list(self._lowered(model))
        left = [number for number, answer in enumerate(answers) if isinstance(answer, Supported)]
        if left and self._objection(part_of(model, left)):
            for number in left:
                objection = self._objection(part_of(model, [number]))
                answers[number] = Unsupported("OP", objection, f"what {self._name} takes") if objection else SUPPORTED
        return answers

    def _objection(self, part: ResolvedModel) -> str:
        """Return why the provider does not take a part; empty if it does."""
        question = _digest(part)
        known = self._known.get(question)
        if known is not None:
            return known
        try:
            self._run(part)
        except HalError as error:
            return self._known.add(question, error.message)
        return self._known.add(question, "")


def _digest(part: ResolvedModel) -> bytes:
    """A digest of operations, the operands that they use, and constants."""
    main, constants = part.model.main, part.constants[0]
    used = sorted({index for operation in main.operations for index in (*operation.inputs, *operation.outputs)})
    places = {index: place for place, index in enumerate(used)}
    operations = [
        (each.type, [places[index] for index in each.inputs], [places[index] for index in each.outputs])
        for each in main.operations
    ]
    operands = [_anywhere(main.operands[index]) for index in used]
    values = [digest_of(constants[index].tobytes()) for index in used if index in constants]
    return digest_of(b"", operations, operands, values, [places[index] for index in main.output_indexes])


def _anywhere(operand: Operand) -> Operand:
    """An operand without what its place in the whole model tells: that is not the part's."""
    is_border = operand.lifetime in (OperandLifeTime.SUBGRAPH_INPUT, OperandLifeTime.SUBGRAPH_OUTPUT)
    lifetime = OperandLifeTime.TEMPORARY_VARIABLE if is_border else operand.lifetime
    return replace(operand, location=DataLocation(), lifetime=lifetime)
