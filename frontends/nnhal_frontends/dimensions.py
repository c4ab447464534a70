"""A model for certain dimensions of its inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from nnhal.resolved import propagate_dimensions
from nnhal.types import Model, Operand
from nnhal.types.layout import Dimensions, combine, describe
from nnhal_frontends.content import ModelContent
from nnhal_frontends.errors import UnfitShape
from nnhal_frontends.imported import ImportedModel, ImportedTensor
from nnhal_frontends.tflite_identifier import is_tflite


def with_dimensions(imported: ImportedModel, shapes: Mapping[str, Sequence[int]]) -> ImportedModel:
    """Return the model with fixed dimensions of inputs, and with those of other operands that follow from them.

    A dimension that is given as 0 does not change.
    Raises UnfitShape if an input is unknown or has other dimensions, HalError if operands contradict one another.
    """
    tensors = {tensor.name: tensor for tensor in imported.all_inputs}
    operands = list(imported.model.main.operands)
    for name, shape in shapes.items():
        if name not in tensors:
            raise UnfitShape(f"a shape is given for '{name}', the model's inputs are {sorted(tensors)}")
        operand = tensors[name].operand
        known = combine(operands[operand].dimensions, tuple(shape))
        if known is None or min(shape, default=0) < 0:
            declared = describe(operands[operand].dimensions)
            raise UnfitShape(f"shape {list(shape)} is given for input '{name}' of shape {declared}")
        operands[operand] = replace(operands[operand], dimensions=known)
    given = _with_operands(imported.model, operands)
    found = propagate_dimensions(replace(imported, model=given).resolved())
    # Scalars have no dimensions, and stay as they are.
    operands = [replace(o, dimensions=known) if known else o for o, known in zip(operands, found, strict=True)]

    def dimensions_of(operand: int, shape: Dimensions) -> Dimensions:
        return operands[operand].dimensions if 0 in shape else shape

    def known_of(tensor: ImportedTensor) -> ImportedTensor:
        return replace(tensor, shape=dimensions_of(tensor.operand, tensor.shape))

    return replace(
        imported,
        model=_with_operands(imported.model, operands),
        inputs=tuple(map(known_of, imported.inputs)),
        outputs=tuple(map(known_of, imported.outputs)),
        states=tuple(replace(s, before=known_of(s.before), after=known_of(s.after)) for s in imported.states),
    )


def _with_operands(model: Model, operands: Sequence[Operand]) -> Model:
    return replace(model, main=replace(model.main, operands=tuple(operands)))


def dimension_names(content: ModelContent) -> dict[str, tuple[str, ...]]:
    """Return a name for each dimension of each input of a valid model, empty for those without one.

    TFLite files have no such names. Inputs of no known rank, and those that are no tensors, are left out.
    """
    if is_tflite(content):
        return {}
    from onnx import ModelProto  # "import onnx" would name the subpackage here

    graph = ModelProto.FromString(content if isinstance(content, bytes) else content[:]).graph
    return {
        value.name: tuple(axis.dim_param for axis in value.type.tensor_type.shape.dim)
        for value in graph.input
        if value.type.tensor_type.HasField("shape")
    }
