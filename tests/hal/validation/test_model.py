from __future__ import annotations

import os
from dataclasses import replace

import pytest

from nnhal.descriptor import Descriptor
from nnhal.memory import create_ashmem, create_blob, map_file
from nnhal.types import (
    Ashmem,
    DataLocation,
    ExtensionNameAndPrefix,
    MappableFile,
    Model,
    Operand,
    OperandLifeTime,
    OperandType,
    OperationType,
    Subgraph,
)
from nnhal.validation import validate_model
from tests.support.additions import addition_model, addition_of_constant, additions_in_a_cycle
from tests.support.models import Recipe
from tests.support.mutations import with_main, with_operand, with_operation, with_unread
from tests.support.refusals import INVALID, refusal

F32 = OperandType.TENSOR_FLOAT32
# The operands of a chain of two additions.
FIRST, SECOND, ACTIVATION, BETWEEN, SUM = range(5)


def chain() -> Model:
    """Two additions: BETWEEN = FIRST + SECOND, SUM = BETWEEN + SECOND."""
    return addition_model(operations=2)


def refuses(model: Model, words: str) -> None:
    refusal(lambda: validate_model(model), INVALID, words)


def test_a_valid_model_needs_the_feature_level_of_what_it_uses() -> None:
    assert validate_model(chain()) == 1
    assert validate_model(with_operation(chain(), 0, type=OperationType.SUB)) == 2


@pytest.mark.contract("MV-25")
def test_open_dimensions_are_legal_and_an_unknown_rank_needs_level_3() -> None:
    assert validate_model(with_operand(chain(), FIRST, dimensions=(0,))) == 1
    assert validate_model(with_operand(chain(), FIRST, dimensions=())) == 3


@pytest.mark.contract("MV-24")
def test_an_unread_input_or_constant_is_legal() -> None:
    unread = Operand(OperandType.INT32, lifetime=OperandLifeTime.SUBGRAPH_INPUT)
    validate_model(with_unread(chain(), unread))
    constant = replace(unread, lifetime=OperandLifeTime.CONSTANT_COPY, location=DataLocation(0, 0, 4))
    validate_model(with_unread(chain(), constant))


@pytest.mark.contract("MV-06")
def test_a_model_without_inputs_is_legal() -> None:
    recipe = Recipe()
    total = recipe.operation(
        OperationType.ADD, [recipe.constant(F32, [1, 2]), recipe.constant(F32, [3]), *recipe.integers(0)], Operand(F32)
    )
    validate_model(recipe.build(total).model)


@pytest.mark.contract("MV-02")
def test_a_model_may_use_pools_of_every_kind_that_is_made_of_bytes() -> None:
    for pool in (create_ashmem(64), create_blob(64), map_file(create_ashmem(70).descriptor, 64, 6)):
        validate_model(addition_of_constant(pool))


@pytest.mark.contract("MV-02")
def test_a_bad_pool_is_refused_even_when_nothing_lies_in_it() -> None:
    good = create_ashmem(64)
    unsealed = Descriptor(os.memfd_create("test"))
    refuses(replace(chain(), pools=(good, replace(good, size=0))), "pool 1 of the model is ashmem of 0 bytes")
    refuses(replace(chain(), pools=(Ashmem(unsealed, 64),)), "pool 0 of the model is ashmem that is not a memfd sealed")
    refuses(replace(chain(), pools=(MappableFile(good.descriptor, 64, 4),)), "pool 0 .* protection 4")


@pytest.mark.contract("MV-03")
@pytest.mark.parametrize(
    ("names", "words"),
    [
        ([("nodot", 1)], "extension name 'nodot'"),
        ([("", 1)], "extension name ''"),
        ([("com.Example", 1)], "extension name 'com.Example'"),
        ([("com.exam-ple", 1)], "extension name 'com.exam-ple'"),
        ([("com..example", 1)], "extension name 'com..example'"),
        ([(".example", 1)], "extension name '.example'"),
        ([("com.example\n", 1)], "extension name 'com.example"),
        ([("com.example", 0)], "has prefix 0, expected 1 to 32767"),
        ([("com.example", -1)], "has prefix -1, expected 1 to 32767"),
        ([("com.example", 32768)], "has prefix 32768, expected 1 to 32767"),
        ([("com.a", 1), ("com.a", 2)], "extension names are not unique"),
        ([("com.a", 1), ("com.b", 1)], "extension prefixes are not unique"),
    ],
)
def test_extensions_have_proper_names_and_prefixes_of_their_own(names: list[tuple[str, int]], words: str) -> None:
    entries = tuple(ExtensionNameAndPrefix(name, prefix) for name, prefix in names)
    refuses(replace(chain(), extension_name_to_prefix=entries), words)


@pytest.mark.contract("MV-03")
def test_the_largest_prefix_is_legal() -> None:
    entries = (ExtensionNameAndPrefix("com.example_1.v2", 32767),)
    validate_model(replace(chain(), extension_name_to_prefix=entries))


@pytest.mark.contract("MV-01", "MV-04")
@pytest.mark.parametrize("code", [-1, 106, 10000, 0xFFFF])
def test_an_operation_that_is_none_of_the_hals_is_refused(code: int) -> None:
    refuses(with_operation(chain(), 1, type=code), f"operation 1 has type {code}, expected 0 to 105")


@pytest.mark.contract("MV-04")
def test_an_operation_of_an_extension_needs_a_prefix_that_is_mapped() -> None:
    model = with_operation(chain(), 1, type=0x0007_0001)
    refuses(model, "operation 1 has type 0x70001, whose prefix the model maps to no extension")
    validate_model(replace(model, extension_name_to_prefix=(ExtensionNameAndPrefix("com.example", 7),)))


@pytest.mark.contract("MV-05")
def test_every_subgraph_has_operands_and_operations() -> None:
    refuses(Model(Subgraph((), (), (), ())), "subgraph main has 0 operands and 0 operations, expected at least one")
    refuses(with_main(chain(), operations=()), "subgraph main has 5 operands and 0 operations")
    unreferenced = replace(chain(), referenced=(chain().main, Subgraph((), (), (), ())))
    refuses(unreferenced, "subgraph of referenced subgraph 1 has 0 operands")


@pytest.mark.parametrize(("what", "lists"), [("input", "input_indexes"), ("output", "output_indexes")])
@pytest.mark.parametrize("index", [-1, 5, 2**31 - 1])
@pytest.mark.contract("MV-01", "MV-15", "MV-16")
def test_the_lists_of_a_subgraph_name_operands_that_exist(what: str, lists: str, index: int) -> None:
    refuses(with_main(chain(), **{lists: (index,)}), f"{what} list names operand {index}, expected 0 to 4")


@pytest.mark.contract("MV-15")
@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        ((FIRST, SECOND, SUM), "operand 4 is listed as input but has lifetime SUBGRAPH_OUTPUT"),
        ((FIRST, SECOND, ACTIVATION), "operand 2 is listed as input but has lifetime CONSTANT_COPY"),
        ((FIRST, SECOND, FIRST), r"input list names an operand twice: \[0, 1, 0\]"),
        ((FIRST,), "operand 1 has lifetime SUBGRAPH_INPUT but is not in the input list"),
    ],
)
def test_the_input_list_is_the_operands_of_that_lifetime(inputs: tuple[int, ...], words: str) -> None:
    refuses(with_main(chain(), input_indexes=inputs), words)


@pytest.mark.contract("MV-16")
@pytest.mark.parametrize(
    ("outputs", "words"),
    [
        ((SUM, BETWEEN), "operand 3 is listed as output but has lifetime TEMPORARY_VARIABLE"),
        ((SUM, FIRST), "operand 0 is listed as output but has lifetime SUBGRAPH_INPUT"),
        ((SUM, SUM), r"output list names an operand twice: \[4, 4\]"),
        ((), "operand 4 has lifetime SUBGRAPH_OUTPUT but is not in the output list"),
    ],
)
def test_the_output_list_is_the_operands_of_that_lifetime(outputs: tuple[int, ...], words: str) -> None:
    refuses(with_main(chain(), output_indexes=outputs), words)


@pytest.mark.contract("MV-01", "MV-17")
@pytest.mark.parametrize("index", [-1, 5, 2**31 - 1])
def test_an_operation_names_operands_that_exist(index: int) -> None:
    inputs = with_operation(chain(), 1, inputs=(BETWEEN, index, ACTIVATION))
    refuses(inputs, f"operation 1: input 1 is operand {index}, expected 0 to 4")
    refuses(with_operation(chain(), 1, outputs=(index,)), f"operation 1: output 0 is operand {index}, expected 0 to 4")


@pytest.mark.contract("MV-18")
def test_an_operation_reads_nothing_that_is_not_written_before() -> None:
    backwards = with_main(chain(), operations=tuple(reversed(chain().main.operations)))
    refuses(backwards, "operation 0: input 0 is operand 3, which no earlier operation writes")
    itself = with_operation(chain(), 0, inputs=(BETWEEN, SECOND, ACTIVATION))
    refuses(itself, "operation 0: input 0 is operand 3, which no earlier operation writes")


@pytest.mark.contract("MV-18", "BA-03")
def test_a_cycle_has_no_order_in_which_it_could_run() -> None:
    refuses(additions_in_a_cycle(), "operation 0: input 1 is operand 4, which no earlier operation writes")


@pytest.mark.contract("MV-18")
def test_an_output_of_the_model_may_be_read_once_it_is_written() -> None:
    model = with_operand(chain(), BETWEEN, lifetime=OperandLifeTime.SUBGRAPH_OUTPUT)
    validate_model(with_main(model, output_indexes=(BETWEEN, SUM)))


@pytest.mark.contract("MV-19")
@pytest.mark.parametrize(
    ("operand", "lifetime"), [(SECOND, "SUBGRAPH_INPUT"), (ACTIVATION, "CONSTANT_COPY"), (5, "NO_VALUE")]
)
def test_an_operation_writes_only_what_is_to_be_written(operand: int, lifetime: str) -> None:
    model = with_unread(chain(), Operand(F32, (16,), lifetime=OperandLifeTime.NO_VALUE))
    refuses(
        with_operation(model, 1, outputs=(operand,)),
        f"operation 1: output 0 is operand {operand}, whose lifetime {lifetime} must not be written",
    )


@pytest.mark.contract("MV-19")
def test_nothing_is_written_twice() -> None:
    refuses(
        with_operation(chain(), 1, outputs=(BETWEEN,)),
        "operation 1: output 0 is operand 3, which an earlier operation already writes",
    )
    refuses(
        with_operation(chain(), 1, outputs=(SUM, SUM)),
        "operation 1: output 1 is operand 4, which an earlier operation already writes",
    )


@pytest.mark.contract("MV-20")
@pytest.mark.parametrize("lifetime", [OperandLifeTime.TEMPORARY_VARIABLE, OperandLifeTime.SUBGRAPH_OUTPUT])
def test_what_is_to_be_written_is_written(lifetime: OperandLifeTime) -> None:
    model = with_unread(chain(), Operand(F32, (16,), lifetime=lifetime))
    if lifetime == OperandLifeTime.SUBGRAPH_OUTPUT:
        model = with_main(model, output_indexes=(SUM, 5))
    refuses(model, f"operand 5 has lifetime {lifetime.name} but no operation writes it")


@pytest.mark.contract("MV-21")
@pytest.mark.parametrize(
    ("model", "words"),
    [
        (with_operation(chain(), 1, inputs=(BETWEEN, SECOND)), r"operation 1 \(ADD\): got 2 inputs, expected 3"),
        (
            with_operation(chain(), 1, inputs=(BETWEEN, SECOND, SECOND)),
            r"operation 1 \(ADD\): input 2 \(activation\) is TENSOR_FLOAT32, expected INT32",
        ),
        (
            with_operand(chain(), SECOND, type=OperandType.TENSOR_FLOAT16),
            r"operation 0 \(ADD\): input 1 \(second\) is TENSOR_FLOAT16, expected TENSOR_FLOAT32",
        ),
        (with_operand(chain(), SUM, type=OperandType.TENSOR_INT32), r"operation 1 \(ADD\): output 0 is TENSOR_INT32"),
        (with_operand(chain(), FIRST, dimensions=(1,) * 5), r"operation 0 \(ADD\): input 0 \(first\) has rank 5"),
        (
            with_operand(chain(), ACTIVATION, lifetime=OperandLifeTime.NO_VALUE, location=DataLocation()),
            r"operation 0 \(ADD\): input 2 \(activation\) is NO_VALUE, expected a value",
        ),
    ],
)
def test_every_operation_has_the_signature_of_its_type(model: Model, words: str) -> None:
    refuses(model, words)


def test_a_fault_in_a_referenced_subgraph_is_named_there() -> None:
    faulty = with_operand(chain(), FIRST, scale=1.0).main
    refuses(replace(chain(), referenced=(chain().main, faulty)), r"operand 0 of referenced subgraph 1 .* has scale 1.0")
    faulty = with_operation(chain(), 0, inputs=()).main
    refuses(replace(chain(), referenced=(faulty,)), r"operation 0 \(ADD\) of referenced subgraph 0: got 0 inputs")


def _refuses_second(operation: OperationType, inputs: list[int], recipe: Recipe, second: Operand, words: str) -> None:
    """The first of two equal operations is valid, and the second has another output."""
    good = recipe.operation(operation, inputs, Operand(F32, (2, 3)))
    recipe.build(good)
    bad = recipe.operation(operation, inputs, second)
    refusal(lambda: recipe.build(good, bad), INVALID, words)


@pytest.mark.parametrize("operation", [OperationType.CAST, OperationType.REVERSE])
def test_an_operation_that_compares_lengths_is_looked_at_each_time(operation: OperationType) -> None:
    recipe = Recipe()
    inputs = [recipe.input(F32, (2, 3)), recipe.constant(OperandType.TENSOR_INT32, [0])]
    count = 1 if operation == OperationType.CAST else 2
    _refuses_second(operation, inputs[:count], recipe, Operand(F32, (2, 4)), "operation 1 .*, expected equal ones")


def test_the_second_of_two_operations_tells_its_own_place() -> None:
    recipe, other = Recipe(), Operand(OperandType.TENSOR_INT32, (2, 3))
    words = r"operation 1 \(RELU\): output 0 is TENSOR_INT32"
    _refuses_second(OperationType.RELU, [recipe.input(F32, (2, 3))], recipe, other, words)
