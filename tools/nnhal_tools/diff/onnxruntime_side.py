"""ONNX Runtime as the reference: the user's file with values inside it as outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx
import onnxruntime

from nnhal.arrays import Array
from nnhal.errors import general_failure
from nnhal_tools.diff.foreign_values import as_operand, source_name, user_inputs
from nnhal_tools.diff.observing import observe
from nnhal_tools.diff.subject import SideValues, Subject, Values
from nnhal_tools.runtimes import EXACT_SUMS

_FATAL = 4


class OnnxRuntimeSide:
    """ONNX Runtime with its own optimisations, in this process and with one thread."""

    name = "onnxruntime"

    def __init__(self, content: bytes, subject: Subject) -> None:
        self._subject, self._model = subject, onnx.ModelProto.FromString(content)

    def observe(self, samples: Sequence[Values]) -> SideValues:
        """Run the file on each sample. Raises HalError if ONNX Runtime cannot run it."""
        graph = self._model.graph
        made = {name for node in graph.node for name in node.output if name}
        outputs = {tensor.name for tensor in graph.output}
        finals = {t.operand: t.name for t in self._subject.imported.all_outputs if t.operand in self._subject.computed}
        inner = {
            operand: name
            for operand in sorted(self._subject.computed - finals.keys())
            if (name := source_name(self._subject, operand)) in made and name not in outputs
        }
        inputs = [user_inputs(self._subject, sample) for sample in samples]
        file = _File(self._subject, self._model, {**finals, **inner}, tuple(finals), inputs)
        found = observe(file, list(inner))
        values = [
            {operand: array for operand, array in sample.items() if array is not None} for sample in found.samples
        ]
        return SideValues([{**given, **own} for given, own in zip(samples, values, strict=True)], tuple(found.fused))


@dataclass(frozen=True, slots=True)
class _File:
    """The user's file with inputs for each sample."""

    subject: Subject
    model: onnx.ModelProto
    names: Mapping[int, str]
    """The tensor of each operand that can be shown."""
    outputs: tuple[int, ...]
    inputs: Sequence[Mapping[str, Array]]

    def run(self, shown: Sequence[int]) -> list[Mapping[int, Array]]:
        model = self.model
        if shown:
            model = onnx.ModelProto()
            model.CopyFrom(self.model)
            model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in {self.names[each] for each in shown})
        session = _session(model)
        asked = (*self.outputs, *shown)
        results: list[Mapping[int, Array]] = []
        for given in self.inputs:
            names = list(dict.fromkeys(self.names[operand] for operand in asked))
            try:
                arrays = dict(zip(names, session.run(names, dict(given)), strict=True))
            except Exception as error:  # its exceptions have no other common class
                general_failure(f"ONNX Runtime: {_in_line(error)}")
            found = {
                operand: as_operand(self.subject, operand, np.asarray(arrays[self.names[operand]])) for operand in asked
            }
            results.append({operand: array for operand, array in found.items() if array is not None})
        return results

    def cut_at(self, value: int) -> list[Mapping[int, Array]]:
        general_failure("ONNX Runtime is given the whole file")


def _session(model: onnx.ModelProto) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = _FATAL
    options.add_session_config_entry(*EXACT_SUMS)
    try:
        return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # its exceptions have no other common class
        general_failure(f"ONNX Runtime: {_in_line(error)}")


def _in_line(error: Exception) -> str:
    return " ".join(str(error).split())
