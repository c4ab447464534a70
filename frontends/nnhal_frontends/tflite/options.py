"""Fields of the schema's kinds of options besides scalars: vectors, and numbers of subgraphs."""

from __future__ import annotations

import struct
from collections.abc import Mapping

from tflite import BuiltinOptions, BuiltinOptions2

from nnhal_frontends.tflite.graph import SECOND_OPTIONS, TfliteOperator

_STRING = 0
_BYTES = 1
_NUMBERS = 4
_LONGS = 8


def _second(number: int) -> int:
    return SECOND_OPTIONS + number


VECTORS: Mapping[int, Mapping[int, int]] = {
    BuiltinOptions.BucketizeOptions: {0: _NUMBERS},
    BuiltinOptions.ConcatEmbeddingsOptions: {1: _NUMBERS, 2: _NUMBERS},
    BuiltinOptions.ReshapeOptions: {0: _NUMBERS},
    BuiltinOptions.SqueezeOptions: {0: _NUMBERS},
    BuiltinOptions.VarHandleOptions: {0: _STRING, 1: _STRING},
    _second(BuiltinOptions2.StableHLOCompositeOptions): {0: _STRING, 2: _BYTES},
    _second(BuiltinOptions2.StablehloBroadcastInDimOptions): {0: _LONGS},
    _second(BuiltinOptions2.StablehloConvolutionOptions): {
        **dict.fromkeys((0, 1, 2, 3, 7, 10, 13), _LONGS),
        4: _BYTES,
        16: _NUMBERS,
    },
    _second(BuiltinOptions2.StablehloCustomCallOptions): {0: _STRING, 2: _STRING, 4: _NUMBERS, 5: _BYTES},
    _second(BuiltinOptions2.StablehloDotGeneralOptions): {**dict.fromkeys(range(4), _LONGS), 4: _NUMBERS},
    _second(BuiltinOptions2.StablehloDynamicSliceOptions): {0: _LONGS},
    _second(BuiltinOptions2.StablehloGatherOptions): dict.fromkeys((0, 1, 2, 4), _LONGS),
    _second(BuiltinOptions2.StablehloPadOptions): dict.fromkeys(range(3), _LONGS),
    _second(BuiltinOptions2.StablehloReduceOptions): {0: _LONGS},
    _second(BuiltinOptions2.StablehloReduceWindowOptions): dict.fromkeys(range(5), _LONGS),
    _second(BuiltinOptions2.StablehloScatterOptions): dict.fromkeys((1, 2, 3), _LONGS),
    _second(BuiltinOptions2.StablehloSliceOptions): dict.fromkeys(range(3), _LONGS),
    _second(BuiltinOptions2.StablehloTransposeOptions): {0: _LONGS},
}
"""The bytes of an element, 0 for a string, by kind of options and field."""

SUBGRAPHS: Mapping[int, tuple[int, ...]] = {
    BuiltinOptions.CallOnceOptions: (0,),
    BuiltinOptions.CallOptions: (0,),
    BuiltinOptions.IfOptions: (0, 1),
    BuiltinOptions.WhileOptions: (0, 1),
    _second(BuiltinOptions2.StableHLOCompositeOptions): (1,),
    _second(BuiltinOptions2.StablehloReduceOptions): (1,),
    _second(BuiltinOptions2.StablehloReduceWindowOptions): (5,),
    _second(BuiltinOptions2.StablehloScatterOptions): (6,),
    _second(BuiltinOptions2.StablehloSortOptions): (2,),
    _second(BuiltinOptions2.StablehloWhileOptions): (0, 1),
}
"""The fields that have the number of a subgraph, each of 4 bytes, by kind of options."""


def field_places(options: bytes) -> tuple[int, ...]:
    """Return where each field lies in a table of options, as operators have them; 0 for one that is left out."""
    length = struct.unpack_from("<H", options)[0]
    return struct.unpack_from(f"<{length // 2 - 2}H", options, 4)


def subgraphs_of(operator: TfliteOperator) -> dict[int, int]:
    """Return the numbers of the subgraphs that an operator refers to, by where they lie in its table of options."""
    numbers = SUBGRAPHS.get(operator.options_type)
    if numbers is None:
        return {}
    fields, start = field_places(operator.options), struct.unpack_from("<H", operator.options)[0]
    places = [fields[number] for number in numbers if number < len(fields)]
    return {place: struct.unpack_from("<i", operator.options, start + place)[0] for place in places if place}
