from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from nnhal.memory import BufferDescription, create_ashmem, create_blob, create_hardware_buffer, map_file
from nnhal.memory.hardware_buffer import Format, Usage
from nnhal.types import (
    DataLocation,
    ExtensionNameAndPrefix,
    Memory,
    Model,
    Operand,
    OperandType,
    OperationType,
    Request,
    RequestArgument,
    RequestMemoryPool,
    TokenValuePair,
)
from nnhal.validation import validate_request
from nnhal.validation.request import validate_hints
from tests.support.additions import ELEMENTS, TENSOR_BYTES, addition_model
from tests.support.models import Recipe
from tests.support.mutations import with_operand
from tests.support.refusals import INVALID, refusal

F32 = OperandType.TENSOR_FLOAT32
POOL_BYTES = 4 * TENSOR_BYTES
FIRST, SECOND, SUM = 0, 1, 3
IMAGE = create_hardware_buffer(BufferDescription(8, 8, 1, Format.R8G8B8A8_UNORM, Usage(0), 8))


def at(offset: int, length: int = TENSOR_BYTES, pool: int = 0, padding: int = 0, **fields: Any) -> RequestArgument:
    return RequestArgument(DataLocation(pool, offset, length, padding), **fields)


def request(*pools: RequestMemoryPool) -> Request:
    """Both inputs and the output of an addition, one after the other in the first pool."""
    return Request((at(0), at(TENSOR_BYTES)), (at(2 * TENSOR_BYTES),), pools or (create_ashmem(POOL_BYTES),))


def with_input(argument: RequestArgument, *pools: RequestMemoryPool) -> Request:
    valid = request(*pools)
    return replace(valid, inputs=(valid.inputs[0], argument))


def with_output(argument: RequestArgument, *pools: RequestMemoryPool) -> Request:
    return replace(request(*pools), outputs=(argument,))


def open_model(operand: int, *dimensions: int) -> Model:
    """The addition with an operand whose dimensions are not all known."""
    return with_operand(addition_model(), operand, dimensions=dimensions)


def refuses(request: Request, words: str, model: Model | None = None, **options: bool) -> None:
    refusal(lambda: validate_request(model or addition_model(), request, **options), INVALID, words)


@pytest.mark.parametrize(
    "pool",
    [
        create_ashmem(POOL_BYTES),
        create_blob(POOL_BYTES),
        map_file(create_ashmem(POOL_BYTES + 3).descriptor, POOL_BYTES, 3),
    ],
)
def test_a_valid_request_has_the_dimensions_of_the_model(pool: Memory) -> None:
    shape = validate_request(addition_model(), request(pool))
    assert shape.inputs == ((ELEMENTS,), (ELEMENTS,))
    assert shape.outputs == ((ELEMENTS,),)


@pytest.mark.contract("RQ-01")
def test_there_is_one_argument_for_each_input_and_output() -> None:
    valid = request()
    refuses(replace(valid, inputs=valid.inputs[:1]), "the request has 1 inputs, the model has 2")
    refuses(replace(valid, inputs=valid.inputs * 2), "the request has 4 inputs, the model has 2")
    refuses(replace(valid, outputs=()), "the request has 0 outputs, the model has 1")


@pytest.mark.contract("RQ-02")
def test_a_pool_index_is_in_range() -> None:
    refuses(with_input(at(0, pool=1)), "input 1 lies in pool 1, but there are 1 pools")
    refuses(with_output(at(0, pool=2**31 - 1)), "output 0 lies in pool 2147483647, but there are 1 pools")


@pytest.mark.parametrize("field", ["pool_index", "offset", "length", "padding"])
def test_a_negative_number_in_a_location_is_refused(field: str) -> None:
    location = replace(DataLocation(0, 0, TENSOR_BYTES), **{field: -1})
    refuses(with_input(RequestArgument(location)), "input 1 has a negative number in its location")
    refuses(with_output(RequestArgument(location)), "output 0 has a negative number in its location")


@pytest.mark.contract("RQ-03")
@pytest.mark.parametrize(
    ("offset", "padding"), [(POOL_BYTES - TENSOR_BYTES + 1, 0), (POOL_BYTES - TENSOR_BYTES, 1), (2**63 - 1, 2**63 - 1)]
)
def test_offset_length_and_padding_lie_in_the_pool(offset: int, padding: int) -> None:
    refuses(with_input(at(offset, padding=padding)), f"input 1 lies at bytes {offset} to .* of pool 0, which has 256")
    refuses(with_output(at(offset, padding=padding)), f"output 0 lies at bytes {offset} to")
    validate_request(addition_model(), with_output(at(POOL_BYTES - TENSOR_BYTES - 7, padding=7)))


@pytest.mark.contract("RQ-04")
def test_a_length_of_0_is_refused() -> None:
    refuses(with_input(at(0, 0)), "input 1 has length 0")
    refuses(with_output(at(0, 0)), "output 0 has length 0", open_model(SUM))


@pytest.mark.contract("RQ-05")
def test_an_argument_without_value_lies_nowhere() -> None:
    valid = RequestArgument(has_no_value=True)
    assert validate_request(addition_model(), with_input(valid)).inputs[1] == (ELEMENTS,)
    for location in (DataLocation(1), DataLocation(offset=1), DataLocation(length=4), DataLocation(padding=1)):
        refuses(with_input(replace(valid, location=location)), "input 1 has no value but has location")
    refuses(with_output(replace(valid, dimensions=(ELEMENTS,))), r"output 0 has no value but has .* \[16\]")


@pytest.mark.contract("RQ-06")
@pytest.mark.parametrize("dimensions", [(8, 2), (15,), (1, 16)])
def test_dimensions_of_the_request_contradict_the_model_in_nothing(dimensions: tuple[int, ...]) -> None:
    words = r"has dimensions \[.*\], the model says \[16\]"
    refuses(with_input(at(0, dimensions=dimensions)), f"input 1 {words}")
    refuses(with_output(at(0, dimensions=dimensions)), f"output 0 {words}")


@pytest.mark.contract("RQ-06", "RQ-09")
@pytest.mark.parametrize(("known", "given"), [((), (4, 4)), ((0, 4), (4, 4)), ((0, 0), (4, 4)), ((4, 0), (0, 4))])
def test_dimensions_of_model_and_request_are_combined(known: tuple[int, ...], given: tuple[int, ...]) -> None:
    shape = validate_request(open_model(SECOND, *known), with_input(at(0, dimensions=given)))
    assert shape.inputs[1] == (4, 4)
    shape = validate_request(open_model(SUM, *known), with_output(at(0, dimensions=given)))
    assert shape.outputs[0] == (4, 4)


def test_a_negative_dimension_is_refused() -> None:
    refuses(with_input(at(0, dimensions=(-1,))), r"input 1 has dimensions \[-1\], expected 0 or more for each axis")


@pytest.mark.contract("RQ-07")
@pytest.mark.parametrize(("known", "given"), [((), ()), ((0,), ()), ((0,), (0,)), ((), (4, 0))])
def test_all_dimensions_of_an_input_are_known(known: tuple[int, ...], given: tuple[int, ...]) -> None:
    words = r"input 1 has dimensions \[.*\], expected all known"
    refuses(with_input(at(0, dimensions=given)), words, open_model(SECOND, *known))


@pytest.mark.contract("RQ-08")
@pytest.mark.parametrize(("known", "given"), [((), ()), ((0,), ()), ((0,), (0,)), ((), (4, 0))])
def test_dimensions_of_an_output_may_be_open_unless_the_execution_is_fenced(
    known: tuple[int, ...], given: tuple[int, ...]
) -> None:
    model, argument = open_model(SUM, *known), with_output(at(0, 7, dimensions=given))
    assert validate_request(model, argument).outputs[0] == (given or known)
    refuses(argument, "output 0 has dimensions .*, expected all known", model, allow_unspecified_output=False)


@pytest.mark.contract("RQ-09")
@pytest.mark.parametrize("length", [1, TENSOR_BYTES - 1, TENSOR_BYTES + 1, 2 * TENSOR_BYTES])
def test_a_length_is_exactly_what_the_dimensions_take(length: int) -> None:
    refuses(with_input(at(0, length)), rf"input 1 has {length} bytes, expected 64 for \[16\]")
    refuses(with_output(at(0, length)), rf"output 0 has {length} bytes, expected 64 for \[16\]")
    words = r"output 0 has \d+ bytes, expected 64 for \[4, 4\]"
    refuses(with_output(at(0, length, dimensions=(4, 4))), words, open_model(SUM))


@pytest.mark.contract("RQ-09")
def test_a_scalar_has_no_dimensions_and_the_length_of_its_type() -> None:
    recipe = Recipe()
    activation = recipe.input(OperandType.INT32)
    total = recipe.operation(
        OperationType.ADD, [recipe.constant(F32, [1]), recipe.constant(F32, [2]), activation], Operand(F32, (1,))
    )
    model = recipe.build(total).model

    def scalar(argument: RequestArgument) -> Request:
        return Request((argument,), (at(8, 4),), (create_ashmem(12),))

    assert validate_request(model, scalar(at(0, 4))).inputs == ((),)
    refuses(scalar(at(0, 4, dimensions=(1,))), r"input 0 is a scalar with dimensions \[1\]", model)
    refuses(scalar(at(0, 8)), "input 0 has 8 bytes, expected 4", model)


def test_an_argument_of_an_extensions_type_has_any_length() -> None:
    model = replace(
        with_operand(addition_model(), SECOND, type=0x0007_0001, dimensions=()),
        extension_name_to_prefix=(ExtensionNameAndPrefix("com.example", 7),),
    )
    validate_request(model, with_input(at(0, 5)))
    refuses(with_input(at(0, 0)), "input 1 has length 0", model)


@pytest.mark.contract("RQ-10")
@pytest.mark.parametrize("whole", [7, IMAGE])
@pytest.mark.parametrize("location", [DataLocation(1, 1), DataLocation(1, length=64), DataLocation(1, padding=1)])
def test_a_token_or_an_image_is_used_whole(whole: RequestMemoryPool, location: DataLocation) -> None:
    pools = (create_ashmem(POOL_BYTES), whole)
    words = "uses a pool as a whole, expected offset, length and padding 0"
    validate_request(addition_model(), with_input(RequestArgument(DataLocation(1)), *pools))
    refuses(with_input(RequestArgument(location), *pools), f"input 1 {words}")
    refuses(with_output(RequestArgument(location), *pools), f"output 0 {words}")


@pytest.mark.contract("RQ-11")
@pytest.mark.parametrize("token", [0, -1, -(2**31)])
def test_a_token_is_above_0(token: int) -> None:
    refuses(request(create_ashmem(POOL_BYTES), token), f"pool 1 of the request is the device token {token}, expected")


@pytest.mark.contract("RQ-15")
def test_a_pool_that_no_argument_uses_is_legal_as_long_as_it_is_valid() -> None:
    used = create_ashmem(POOL_BYTES)
    validate_request(addition_model(), request(used, create_ashmem(1), 5, IMAGE))
    refuses(request(used, replace(used, size=-1)), "pool 1 of the request is ashmem of -1 bytes")


@pytest.mark.contract("RQ-16")
def test_inputs_may_lie_in_a_pool_that_is_only_read() -> None:
    readable = map_file(create_ashmem(POOL_BYTES).descriptor, POOL_BYTES, writable=False)
    output = at(0, pool=1)
    validate_request(addition_model(), with_output(output, readable, create_ashmem(POOL_BYTES)))


@pytest.mark.contract("RQ-17")
def test_several_inputs_may_share_a_range() -> None:
    validate_request(addition_model(), with_input(at(0)))


HINTED = (ExtensionNameAndPrefix("com.example.hints", 7),)


def hints(*tokens: int) -> list[TokenValuePair]:
    return [TokenValuePair(token, b"") for token in tokens]


@pytest.mark.contract("PM-15", "RE-07")
def test_a_hint_of_a_known_extension_is_fine_even_when_nobody_knows_what_it_means() -> None:
    validate_hints(hints(0x7_0000, 0x7_FFFF), HINTED)
    validate_hints([], ())


@pytest.mark.contract("PM-15", "RE-07")
@pytest.mark.parametrize("token", [0, 1, 0x8_0001, -1])
def test_a_hint_of_an_extension_that_is_not_mapped_is_refused(token: int) -> None:
    refusal(lambda: validate_hints(hints(0x7_0001, token), HINTED), INVALID, "which is mapped to no extension")


@pytest.mark.contract("PM-15", "RE-07")
def test_the_tokens_of_hints_are_unique() -> None:
    refusal(lambda: validate_hints(hints(0x7_0001, 0x7_0001), HINTED), INVALID, r"hint tokens \[.*\] are not unique")
