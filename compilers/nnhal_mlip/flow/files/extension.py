"""Additions of this flow to the upstream form, in objects with the key ``nnhal``.

The version is at the top of the nodes file. A file without any of these objects is an upstream file.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer

from nnhal_mlip.flow.errors import FlowFilesError
from nnhal_mlip.flow.graph.flow_graph import FlowValue

Scale: TypeAlias = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class StrictPart(BaseModel):
    """A part of a file: immutable, and without keys that nobody knows."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True, serialize_by_alias=True)

    @model_serializer(mode="wrap")
    def _without_absent(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {key: value for key, value in write(self).items() if value is not None}


class ScaledPart(StrictPart):
    scales: tuple[Scale, ...] | None = None
    """The scales of values that are integers, with a zero point of 0: one, or one for each index along ``axis``."""
    axis: int | None = None
    """An axis of the value's shape, or of the shape in the constants file."""


class ValueExtension(ScaledPart):
    """A value that enters the subgraph."""

    value: str
    """Its name in the graph."""


class OutputExtension(ValueExtension):
    """A value that leaves the subgraph."""

    names: tuple[str, ...]
    """The user's names of the model's outputs that it holds; empty if only other parts of the model need it."""
    layout: str
    """NCHW, NHWC or NC; empty for other ranks."""


class SubgraphExtension(StrictPart):
    """At the top of the nodes file."""

    schema_version: Literal[1] = Field(alias="schema")
    outputs: tuple[OutputExtension, ...]
    """In the order of the heads."""


class ConstantExtension(ScaledPart):
    """Of an entry of the constants file."""

    value: str
    """Its name in the graph."""


class KernelExtension(ScaledPart):
    """Of a kernel. The scales are those of its result."""

    id: str
    """Unique among all kernels and subgraphs of a model."""
    value: str
    """The name of its result in the graph."""
    user_names: tuple[str, ...]
    """The user's nodes that it stands for; empty if a pass has added it."""
    kinds: tuple[str, ...]
    """What each of them is in the model's format: ``Conv``, ``CONV_2D``."""
    beyond_public: tuple[str, ...] = ()
    """What of it the public flow would refuse."""
    clip: tuple[float | None, float | None] | None = None
    """The ends of the range that ``activation_type`` clip keeps to, as real numbers; None for no end."""
    table: tuple[float, float] | None = None
    """The parameters alpha and beta of ``activation_type`` hard_sigmoid and leaky_relu."""
    zero_padding: tuple[int, int, int, int] | None = None
    """Of a pool: how much of ``padding`` (top, left, bottom, right) is data of value 0, which counts as such."""
    constant_fields: dict[int, str] | None = None
    """Of a concatenation: its fields that are constants, by their position. They have no edge."""


def scales_of(place: str, value: FlowValue, rank: int | None = None) -> dict[str, Any]:
    """Return ``scales`` and ``axis`` of a value that is written with a rank, which leading ones make out of its own.

    Raises FlowFilesError, which begins with ``place``, if a scale is not a positive number.
    """
    if wrong := [scale for scale in value.scales if not (isfinite(scale) and scale > 0)]:
        raise FlowFilesError(f"{place}: got scale {wrong[0]}, expected a number above 0")
    axis = value.axis % max(value.rank, 1) + (value.rank if rank is None else rank) - value.rank
    return {"scales": value.scales or None, "axis": axis if len(value.scales) > 1 else None}


def check_scales(place: str, part: ScaledPart | None, shape: Sequence[int]) -> None:
    """Raise FlowFilesError, which begins with ``place``, if scales do not fit a shape."""
    if part is None or part.scales is None:
        return
    axis, count = part.axis, len(part.scales)
    fits = count == 1 if axis is None else 0 <= axis < len(shape) and count == shape[axis]
    if not fits:
        got = f"{count} scales along axis {axis} of shape {list(shape)}"
        raise FlowFilesError(f"{place}: got {got}, expected one for each index, or one without an axis")
