"""The attributes of a kernel in the nodes file: those that all have, and the objects that stand for its constants."""

from __future__ import annotations

import re
from typing import Annotated, Any, TypeAlias

from pydantic import (
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    SerializerFunctionWrapHandler,
    WithJsonSchema,
    model_serializer,
    model_validator,
)

from nnhal_mlip.flow.files.extension import KernelExtension, StrictPart
from nnhal_mlip.flow.files.scalars import Count, Integers, Word, Words

Extents: TypeAlias = tuple[Annotated[int, Field(strict=True, ge=1)], ...]


class ConstantObject(StrictPart):
    """A constant as its kernel sees it. The values are in the constants file, under ``name``."""

    name: str
    shape: Extents
    """As in the constants file."""
    dtype: str
    min: str | None = None
    """The least value of kernels, biases and inputs, with 17 significant digits."""
    max: str | None = None


Constant = Annotated[
    ConstantObject | None,
    BeforeValidator(lambda value: None if value == {} else value),
    PlainSerializer(lambda value: value.model_dump() if value else {}),
    WithJsonSchema({"anyOf": [{"type": "object", "maxProperties": 0}, ConstantObject.model_json_schema()]}),
]
"""A constant, or ``{}`` if the kernel has none of that kind."""

_CONSTANTS = ("kernel_const", "bias_const", "gamma_const", "beta_const", "mean_const", "var_const")
_LAST = ("from_tuple_idx", "shape", "dtype", "num_inputs", "num_outputs", "mrvl_nodes_idx", *_CONSTANTS, "nnhal")
_NUMBERED = re.compile(r"data_layout_shape_([0-9]+)")


def _number_shapes(schema: dict[str, Any]) -> None:
    """Describe the numbered shapes as they are in JSON."""
    del schema["properties"]["data_layout_shapes"]
    schema["patternProperties"] = {f"^{_NUMBERED.pattern}$": schema["properties"]["data_layout_shape"]}


class KernelAttributes(StrictPart):
    model_config = ConfigDict(json_schema_extra=_number_shapes)

    layer_name: Word
    composite_name: Word | None = None
    """``mrvl.conv2d_nhwc2nhwc``; None for a bare operator."""
    func_node_name: Word
    """The symbol of the subgraph."""
    func_name: Word
    """``n1_Conv2D_NHWC``: the number of the kernel, its layer and its layouts."""
    data_layout: Word = ""
    """NHWC, NCHW or NC; empty for other ranks."""
    data_layout_shape: Integers
    """The shape of the first input. For Sum2D of rank 4, with ones behind."""
    data_layout_shapes: tuple[tuple[int, ...], ...] = ()
    """The shapes of all inputs if there are several; in JSON ``data_layout_shape_0`` and so on."""
    out_layout: Word = ""
    out_layout_shape: Integers
    from_tuple_idx: Integers
    """For each input its place in the tuple that it comes from; -1 if it comes from none, as always here."""
    activation_type: Word | None = None
    """``relu``, ``clip`` with the range in the extension, or the name of a table's function: ``silu``."""
    shape: tuple[Extents, ...]
    """One for each result."""
    dtype: Words
    num_inputs: Count
    """Constants included."""
    num_outputs: Count
    mrvl_nodes_idx: tuple[Annotated[int, Field(strict=True, ge=1)]]
    """The position among the kernels, from 1."""
    kernel_const: Constant = None
    bias_const: Constant = None
    gamma_const: Constant = None
    beta_const: Constant = None
    mean_const: Constant = None
    var_const: Constant = None
    nnhal: KernelExtension | None = None

    @model_validator(mode="before")
    @classmethod
    def _gather(cls, given: Any) -> Any:
        """Collect the numbered shapes."""
        if not isinstance(given, dict):
            return given
        shapes: dict[int, object] = {}
        rest: dict[str, object] = {}
        for key, value in given.items():
            if found := _NUMBERED.fullmatch(key):
                shapes[int(found[1])] = value
            else:
                rest[key] = value
        if sorted(shapes) != list(range(len(shapes))):
            raise ValueError(f"data_layout_shape_<i> has the numbers {sorted(shapes)}, expected all from 0")
        if shapes:
            rest["data_layout_shapes"] = [_extents(shapes[number], number) for number in range(len(shapes))]
        return rest

    @model_serializer(mode="wrap")
    def _without_absent(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Number the shapes as well, and end with what all kernels have."""
        spread: dict[str, Any] = {}
        for key, value in write(self).items():
            if key == "data_layout_shapes":
                for number, shape in enumerate(value):
                    spread[f"data_layout_shape_{number}"] = [str(extent) for extent in shape]
            elif value is not None:
                spread[key] = value
        for key in _LAST:
            if key in spread:
                spread[key] = spread.pop(key)
        return spread


def _extents(value: object, number: int) -> list[int]:
    if isinstance(value, list) and all(isinstance(each, str) and each.isascii() and each.isdigit() for each in value):
        return [int(each) for each in value]
    raise ValueError(f"data_layout_shape_{number} is {value!r}, expected a list of integers as strings")
