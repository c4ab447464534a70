"""LiteRT as the reference: its own kernels, which keep every tensor."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from nnhal.arrays import Array
from nnhal.errors import general_failure
from nnhal_hosting.extras import install_command
from nnhal_tools.diff.foreign_values import as_operand, source_name, user_inputs
from nnhal_tools.diff.subject import SideValues, Subject, Values

if TYPE_CHECKING:
    from ai_edge_litert.interpreter import Interpreter


class LiteRtSide:
    """LiteRT's interpreter without its delegate, in this process and with one thread.

    The delegate XNNPACK, which LiteRT uses by default, fuses operators and does not keep what lies between them.
    """

    name = "litert"

    def __init__(self, content: bytes, subject: Subject) -> None:
        """Raises ValueError if LiteRT is not installed, or the file names several entry points."""
        try:
            import ai_edge_litert.interpreter  # noqa: F401 - an extra
        except ImportError as error:
            raise ValueError(f"--ref litert: LiteRT is not installed: {install_command('litert')}") from error
        if len(subject.imported.signatures) > 1:
            count = len(subject.imported.signatures)
            raise ValueError(f"--ref litert: the file names {count} entry points, expected one at most")
        self._subject, self._content = subject, content

    def observe(self, samples: Sequence[Values]) -> SideValues:
        """Run the file on each sample. Raises HalError if LiteRT cannot run it."""
        inputs = [list(user_inputs(self._subject, sample).values()) for sample in samples]
        try:
            kept, found, outputs = self._keeping(), [], []
            for given, sample in zip(inputs, samples, strict=True):
                _invoke(kept, given)
                found.append({**sample, **self._values(kept)})
                outputs.append(_outputs(kept))
        except (RuntimeError, ValueError) as error:
            general_failure(f"LiteRT: {' '.join(str(error).split())}")
        return SideValues(found, (), self._delegate_notes(inputs, outputs))

    def _keeping(self) -> Interpreter:
        from ai_edge_litert.interpreter import Interpreter, OpResolverType

        return Interpreter(
            model_content=self._content,
            num_threads=1,
            experimental_preserve_all_tensors=True,
            experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
        )

    def _delegate_notes(self, inputs: Sequence[Sequence[Array]], outputs: Sequence[Sequence[Array]]) -> tuple[str, ...]:
        """Say how LiteRT as it runs by default differs from these outputs."""
        from ai_edge_litert.interpreter import Interpreter

        start = "values are those of LiteRT's own kernels"
        try:
            usual = Interpreter(model_content=self._content, num_threads=1)
            for given, own in zip(inputs, outputs, strict=True):
                _invoke(usual, given)
                if any(one.tobytes() != other.tobytes() for one, other in zip(own, _outputs(usual), strict=True)):
                    return (f"{start}; with its delegate XNNPACK its outputs have other bits",)
        except (RuntimeError, ValueError):
            return (f"{start}; its delegate XNNPACK cannot run the model",)
        return ()

    def _values(self, interpreter: Interpreter) -> Mapping[int, Array]:
        """Return the values by operand, of tensors whose names are no other tensors' too."""
        details: list[dict[str, Any]] = interpreter.get_tensor_details()
        named = Counter(str(detail["name"]) for detail in details)
        places = {str(detail["name"]): int(detail["index"]) for detail in details}
        outputs = [int(detail["index"]) for detail in interpreter.get_output_details()]
        last = dict(zip((tensor.operand for tensor in self._subject.imported.outputs), outputs, strict=False))
        found: dict[int, Array] = {}
        for operand in self._subject.computed:
            name = source_name(self._subject, operand)
            place = last.get(operand, places.get(name, -1) if named[name] == 1 else -1)
            if place < 0:
                continue
            try:
                values = as_operand(self._subject, operand, np.asarray(interpreter.get_tensor(place)))
            except ValueError:  # a tensor without data, such as one that an operator leaves out
                continue
            if values is not None:
                found[operand] = values
        return found


def _invoke(interpreter: Interpreter, given: Sequence[Array]) -> None:
    details = interpreter.get_input_details()
    for detail, array in zip(details, given, strict=True):
        if tuple(detail["shape"]) != array.shape:
            interpreter.resize_tensor_input(detail["index"], array.shape)
    interpreter.allocate_tensors()
    for detail, array in zip(details, given, strict=True):
        interpreter.set_tensor(detail["index"], array)
    interpreter.invoke()


def _outputs(interpreter: Interpreter) -> list[Array]:
    return [np.asarray(interpreter.get_tensor(detail["index"])) for detail in interpreter.get_output_details()]
