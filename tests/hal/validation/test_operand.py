from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from nnhal.memory import BufferDescription, create_ashmem, create_blob, create_hardware_buffer
from nnhal.memory.hardware_buffer import Format, Usage
from nnhal.types import (
    ChannelQuant,
    DataLocation,
    ExtensionNameAndPrefix,
    Memory,
    Model,
    Operand,
    OperandLifeTime,
    OperandType,
)
from nnhal.types.layout import SCALAR_TYPES
from nnhal.validation import validate_model
from tests.support.additions import addition_model
from tests.support.mutations import with_unread
from tests.support.refusals import FAILURE, INVALID, refusal

INPUT = OperandLifeTime.SUBGRAPH_INPUT
COPY = OperandLifeTime.CONSTANT_COPY
POOL = OperandLifeTime.CONSTANT_POOL
EXTENSION = 0x0007_0001
ZERO_POINTS = {
    OperandType.TENSOR_QUANT8_ASYMM: (0, 255),
    OperandType.TENSOR_QUANT8_ASYMM_SIGNED: (-128, 127),
    OperandType.TENSOR_QUANT16_ASYMM: (0, 65535),
}
SCALED = [*ZERO_POINTS, OperandType.TENSOR_QUANT8_SYMM, OperandType.TENSOR_QUANT16_SYMM]
PER_CHANNEL = OperandType.TENSOR_QUANT8_SYMM_PER_CHANNEL
UNSCALED = [t for t in OperandType if t not in (*SCALED, OperandType.TENSOR_INT32, OperandType.SUBGRAPH)]
PLACE = "operand 4"


def operand_of(code: int, **fields: Any) -> Operand:
    """Make a valid input of any type, with some fields replaced."""
    operand = Operand(
        code,
        () if code in SCALAR_TYPES else (2, 3),
        0.5 if code in SCALED else 0.0,
        0,
        INPUT,
        extra_params=ChannelQuant((0.5, 0.25, 1.0), 1) if code == PER_CHANNEL else None,
    )
    return replace(operand, **fields)


def model_with(operand: Operand, values: bytes = bytes(24), pools: Sequence[Memory] = ()) -> Model:
    """Make a valid model with an additional operand 4, and with an extension of prefix 7."""
    model = replace(
        with_unread(addition_model(), operand),
        pools=tuple(pools),
        extension_name_to_prefix=(ExtensionNameAndPrefix("com.example.test", 7),),
    )
    return replace(model, operand_values=model.operand_values + values)


def accepts(operand: Operand) -> None:
    validate_model(model_with(operand))


def refuses(operand: Operand, words: str) -> None:
    refusal(lambda: validate_model(model_with(operand)), INVALID, f"{PLACE} .*{words}")


@pytest.mark.contract("MV-24")
@pytest.mark.parametrize("code", [t for t in OperandType if t != OperandType.SUBGRAPH] + [EXTENSION])
def test_an_operand_that_nothing_reads_is_legal_whatever_its_type(code: int) -> None:
    accepts(operand_of(code))


@pytest.mark.contract("MV-01", "MV-04")
@pytest.mark.parametrize("code", [-1, 16, 10000, 10001, 0xFFFF])
def test_a_type_that_is_none_of_the_hals_is_refused(code: int) -> None:
    refuses(operand_of(code), f"has type {code}, expected 0 to 15")


@pytest.mark.contract("MV-04")
def test_a_type_whose_prefix_is_mapped_to_no_extension_is_refused() -> None:
    refuses(operand_of(0x0008_0001), "has type 0x80001, whose prefix 8 the model maps to no extension")


@pytest.mark.parametrize("lifetime", [-1, 7])
def test_a_lifetime_that_is_none_of_the_hals_is_refused(lifetime: int) -> None:
    refuses(operand_of(OperandType.TENSOR_FLOAT32, lifetime=lifetime), f"lifetime {lifetime}, expected 0 to 6")


@pytest.mark.contract("MV-08")
@pytest.mark.parametrize(
    "operand",
    [
        operand_of(OperandType.SUBGRAPH, dimensions=()),
        operand_of(OperandType.TENSOR_FLOAT32, lifetime=OperandLifeTime.SUBGRAPH),
    ],
)
def test_type_subgraph_and_lifetime_subgraph_go_together(operand: Operand) -> None:
    refuses(operand, "type SUBGRAPH and lifetime SUBGRAPH go together")


@pytest.mark.contract("MV-01")
def test_a_negative_dimension_is_refused() -> None:
    refuses(
        operand_of(OperandType.TENSOR_FLOAT32, dimensions=(2, -1)),
        r"dimensions \[2, -1\], expected 0 or more for each axis",
    )


@pytest.mark.contract("MV-09")
@pytest.mark.parametrize("code", sorted(SCALAR_TYPES))
def test_a_scalar_with_dimensions_is_refused(code: OperandType) -> None:
    refuses(operand_of(code, dimensions=(1,)), rf"is a {code.name} with dimensions \[1\]")


@pytest.mark.contract("MV-25")
@pytest.mark.parametrize("dimensions", [(), (0,), (2, 0), (0, 0, 0, 0)])
def test_unknown_dimensions_are_legal_unless_the_operand_is_constant(dimensions: tuple[int, ...]) -> None:
    accepts(operand_of(OperandType.TENSOR_FLOAT32, dimensions=dimensions))


@pytest.mark.contract("MV-23")
def test_a_tensor_has_less_than_4_gib() -> None:
    accepts(operand_of(OperandType.TENSOR_QUANT8_ASYMM, dimensions=(65537, 65535)))
    refuses(
        operand_of(OperandType.TENSOR_QUANT8_ASYMM, dimensions=(65536, 65536)),
        "takes 4294967296 bytes, expected at most",
    )
    refuses(operand_of(OperandType.TENSOR_FLOAT32, dimensions=(2**31 - 1,) * 4), "bytes, expected at most 4294967295")


@pytest.mark.contract("MV-11")
@pytest.mark.parametrize("code", SCALED)
@pytest.mark.parametrize("scale", [0.0, -0.5])
def test_a_quantised_type_has_a_scale_above_0(code: OperandType, scale: float) -> None:
    refuses(operand_of(code, scale=scale), rf"\({code.name}\) has scale {scale}, expected more than 0")


@pytest.mark.contract("MV-11")
@pytest.mark.parametrize("code", [*UNSCALED, EXTENSION])
def test_any_other_type_has_scale_0(code: int) -> None:
    refuses(operand_of(code, scale=0.5), "has scale 0.5, expected 0")


@pytest.mark.contract("MV-11")
def test_32_bit_integers_may_have_a_scale_and_none_below_0() -> None:
    accepts(operand_of(OperandType.TENSOR_INT32, scale=0.5))
    refuses(operand_of(OperandType.TENSOR_INT32, scale=-0.5), "has scale -0.5, expected 0 or more")


@pytest.mark.contract("MV-11")
@pytest.mark.parametrize(
    "code", [OperandType.TENSOR_FLOAT32, OperandType.TENSOR_INT32, OperandType.TENSOR_QUANT8_ASYMM]
)
@pytest.mark.parametrize("scale", [math.nan, math.inf, -math.inf])
def test_a_scale_is_a_finite_number(code: OperandType, scale: float) -> None:
    refuses(operand_of(code, scale=scale), f"has scale {scale}, expected a finite number")


@pytest.mark.contract("MV-11")
@pytest.mark.parametrize("code", [t for t in OperandType if t != OperandType.SUBGRAPH] + [EXTENSION])
def test_a_zero_point_lies_in_the_range_of_its_type(code: int) -> None:
    low, high = ZERO_POINTS.get(OperandType(code), (0, 0)) if code != EXTENSION else (0, 0)
    for legal in (low, high):
        accepts(operand_of(code, zero_point=legal))
    for illegal in (low - 1, high + 1):
        refuses(operand_of(code, zero_point=illegal), f"has zero point {illegal}, expected {low}")


@pytest.mark.contract("MV-11", "MV-01")
@pytest.mark.parametrize(
    ("params", "dimensions", "words"),
    [
        (None, (2, 3), "has a per-channel type but no channel quantisation"),
        (b"bytes", (2, 3), "has a per-channel type but no channel quantisation"),
        (ChannelQuant((0.5,) * 3, -1), (2, 3), r"has channel dimension -1, expected an axis of \[2, 3\]"),
        (ChannelQuant((0.5,) * 3, 2), (2, 3), r"has channel dimension 2, expected an axis of \[2, 3\]"),
        (ChannelQuant((0.5,) * 3, 0), (), r"has channel dimension 0, expected an axis of \[\]"),
        (ChannelQuant((0.5,) * 2, 1), (2, 3), "has 2 channel scales, expected 3"),
        (ChannelQuant((), 1), (2, 0), "has 0 channel scales, expected a known number"),
        (ChannelQuant((0.5, 0.0, 0.5), 1), (2, 3), "channel scales that are not all finite and above 0"),
        (ChannelQuant((0.5, -1.0, 0.5), 1), (2, 3), "channel scales that are not all finite and above 0"),
        (ChannelQuant((0.5, math.nan, 0.5), 1), (2, 3), "channel scales that are not all finite and above 0"),
        (ChannelQuant((0.5, math.inf, 0.5), 1), (2, 3), "channel scales that are not all finite and above 0"),
    ],
)
def test_per_channel_quantisation_has_one_scale_above_0_for_each_channel(
    params: ChannelQuant | bytes | None, dimensions: tuple[int, ...], words: str
) -> None:
    refuses(operand_of(PER_CHANNEL, extra_params=params, dimensions=dimensions), words)


@pytest.mark.contract("MV-11")
def test_an_axis_other_than_the_channels_may_be_unknown() -> None:
    accepts(operand_of(PER_CHANNEL, dimensions=(0, 3)))


@pytest.mark.contract("MV-11")
def test_extra_parameters_are_for_the_types_that_have_them() -> None:
    accepts(operand_of(EXTENSION, extra_params=b"what the extension wants"))
    refuses(operand_of(EXTENSION, extra_params=ChannelQuant((0.5,), 0)), "has extra parameters, expected none")
    refuses(operand_of(OperandType.TENSOR_FLOAT32, extra_params=b""), "has extra parameters, expected none")
    refuses(
        operand_of(OperandType.TENSOR_QUANT8_SYMM, extra_params=ChannelQuant((0.5,) * 3, 1)),
        "has extra parameters, expected none",
    )


@pytest.mark.contract("MV-12")
@pytest.mark.parametrize(
    "lifetime",
    [
        OperandLifeTime.TEMPORARY_VARIABLE,
        OperandLifeTime.SUBGRAPH_INPUT,
        OperandLifeTime.SUBGRAPH_OUTPUT,
        OperandLifeTime.NO_VALUE,
    ],
)
@pytest.mark.parametrize(
    "location", [DataLocation(1), DataLocation(offset=1), DataLocation(length=24), DataLocation(padding=1)]
)
def test_only_constants_lie_anywhere(lifetime: OperandLifeTime, location: DataLocation) -> None:
    operand = operand_of(OperandType.TENSOR_FLOAT32, lifetime=lifetime, location=location)
    refuses(operand, "is not a constant but has location")


@pytest.mark.contract("MV-01")
@pytest.mark.parametrize("lifetime", list(OperandLifeTime))
@pytest.mark.parametrize("field", ["pool_index", "offset", "length", "padding"])
def test_a_negative_number_in_a_location_is_refused(lifetime: OperandLifeTime, field: str) -> None:
    code = OperandType.SUBGRAPH if lifetime == OperandLifeTime.SUBGRAPH else OperandType.FLOAT32
    operand = operand_of(code, dimensions=(), lifetime=lifetime, location=DataLocation(**{field: -1}))
    refuses(operand, "has a negative number in its location")


@pytest.mark.contract("MV-13")
@pytest.mark.parametrize(
    ("location", "words"),
    [
        (DataLocation(1, 4, 24), "is CONSTANT_COPY with pool index 1, expected 0"),
        (DataLocation(0, 4, 24, 1), "is a constant with padding 1, expected 0"),
        (DataLocation(0, 5, 24), "lies at bytes 5 to 29 of the operand values, which has 28"),
        (DataLocation(0, 2**63 - 1, 24), "lies at bytes 9223372036854775807 to"),
        (DataLocation(0, 4, 23), "has 23 bytes, expected 24"),
        (DataLocation(0, 0, 28), "has 28 bytes, expected 24"),
        (DataLocation(), "has 0 bytes, expected 24"),
    ],
)
def test_a_copied_constant_lies_exactly_in_the_operand_values(location: DataLocation, words: str) -> None:
    accepts(operand_of(OperandType.TENSOR_FLOAT32, lifetime=COPY, location=DataLocation(0, 4, 24)))
    refuses(operand_of(OperandType.TENSOR_FLOAT32, lifetime=COPY, location=location), words)


@pytest.mark.contract("MV-14")
@pytest.mark.parametrize(
    ("location", "words"),
    [
        (DataLocation(2, 0, 24), "lies in pool 2, but there are 2 pools"),
        (DataLocation(1, 0, 24, 1), "is a constant with padding 1, expected 0"),
        (DataLocation(1, 7, 24), "lies at bytes 7 to 31 of pool 1, which has 30"),
        (DataLocation(0, 0, 24), "lies at bytes 0 to 24 of pool 0, which has 8"),
        (DataLocation(1, 0, 12), "has 12 bytes, expected 24"),
    ],
)
def test_a_constant_in_a_pool_lies_exactly_in_it(location: DataLocation, words: str) -> None:
    pools: list[Memory] = [create_ashmem(8), create_blob(30)]
    operand = operand_of(OperandType.TENSOR_FLOAT32, lifetime=POOL, location=DataLocation(1, 6, 24))
    validate_model(model_with(operand, pools=pools))
    outside = model_with(replace(operand, location=location), pools=pools)
    refusal(lambda: validate_model(outside), INVALID, f"{PLACE} .*{words}")


@pytest.mark.contract("MV-02", "MV-14")
def test_no_constant_lies_in_an_image() -> None:
    image = create_hardware_buffer(BufferDescription(64, 64, 1, Format.R8G8B8A8_UNORM, Usage(0), 64))
    operand = operand_of(OperandType.TENSOR_FLOAT32, lifetime=POOL, location=DataLocation(0, 0, 24))
    model = model_with(operand, pools=[image])
    refusal(
        lambda: validate_model(model),
        FAILURE,
        f"{PLACE} lies in pool 0, a hardware buffer of images",
    )


@pytest.mark.contract("MV-10")
@pytest.mark.parametrize("dimensions", [(), (0,), (2, 0)])
@pytest.mark.parametrize("lifetime", [COPY, POOL])
def test_the_dimensions_of_a_constant_are_known(lifetime: OperandLifeTime, dimensions: tuple[int, ...]) -> None:
    operand = operand_of(OperandType.TENSOR_FLOAT32, lifetime=lifetime, dimensions=dimensions)
    refuses(operand, "is a constant with dimensions .*, expected all known")


def test_a_constant_of_an_extension_has_the_length_of_its_location() -> None:
    operand = operand_of(EXTENSION, dimensions=(), lifetime=COPY, location=DataLocation(0, 4, 7))
    accepts(operand)
    refuses(replace(operand, location=DataLocation(0, 4, 25)), "lies at bytes 4 to 29 of the operand values")


@pytest.mark.contract("MV-08")
@pytest.mark.parametrize(
    ("location", "words"),
    [
        (DataLocation(offset=0), "refers to subgraph 0, but there are 0 subgraphs"),
        (DataLocation(1, 0), "expected 0 in the rest of its location"),
        (DataLocation(length=1), "expected 0 in the rest of its location"),
        (DataLocation(padding=1), "expected 0 in the rest of its location"),
    ],
)
def test_a_reference_names_a_subgraph_and_nothing_else(location: DataLocation, words: str) -> None:
    operand = Operand(OperandType.SUBGRAPH, lifetime=OperandLifeTime.SUBGRAPH, location=location)
    refuses(operand, words)


@pytest.mark.contract("MV-09")
def test_a_reference_has_no_dimensions() -> None:
    operand = Operand(OperandType.SUBGRAPH, (1,), lifetime=OperandLifeTime.SUBGRAPH)
    refuses(operand, r"is a SUBGRAPH with dimensions \[1\]")
