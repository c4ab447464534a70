"""What this flow adds to the upstream form, in objects with the key ``nnhal``.

The version is at the top of the nodes file. A file without any of these objects is an upstream file.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer

Scale: TypeAlias = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class StrictPart(BaseModel):
    """A part of a file: immutable, and without keys that nobody knows."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True, serialize_by_alias=True)

    @model_serializer(mode="wrap")
    def _without_absent(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {key: value for key, value in write(self).items() if value is not None}


class ScaledPart(StrictPart):
    """A part with scales."""

    scales: tuple[Scale, ...] | None = None
    """Of values that are integers, with a zero point of 0: one, or one for each index along ``axis``."""
    axis: int | None = None
    """Of the value's shape, or of the shape in the constants file."""


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
    zero_padding: tuple[int, int, int, int] | None = None
    """Of a pool: how much of ``padding`` (top, left, bottom, right) is data of value 0, which counts as such."""
    constant_fields: dict[int, str] | None = None
    """Of a concatenation: its fields that are constants, by their position. They have no edge."""
