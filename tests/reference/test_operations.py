"""operations.md: what it says of the operands of operations."""

from __future__ import annotations

import re

from nnhal.types import OperandType, OperationType
from tests.reference.operations.meanings import meaning_of
from tests.reference.operations.page import operations_page
from tests.reference.operations.signatures import all_forms

PAGE = operations_page()
FORMS = {definition.type: forms for definition, forms in all_forms()}


def section(name: str) -> str:
    sections = PAGE.split("\n## ")[1:]
    (found,) = [text for text in sections if name in text.partition("\n")[0].split(", ")]
    return found


def test_every_operation_has_one_section() -> None:
    for operation in OperationType:
        assert section(operation.name)


def test_every_input_of_every_form_says_what_it_is() -> None:
    for forms in FORMS.values():
        for form in forms:
            if form.names is not None:
                for member in form.names:
                    assert meaning_of(form.names, member).endswith("."), member


def test_a_convolution_has_two_forms_whose_operands_are_in_order() -> None:
    implicit, explicit = FORMS[OperationType.CONV_2D]
    assert sorted(implicit.inputs) == list(range(10))
    assert sorted(explicit.inputs) == list(range(13))
    assert implicit.counts == (7, 8, 10)
    assert implicit.inputs[2].types[OperandType.TENSOR_QUANT8_ASYMM] == {OperandType.TENSOR_INT32}
    assert "- 1 filter, " in section("CONV_2D")
    assert "[output channels, height, width, input channels]" in section("CONV_2D")


def test_inputs_that_may_be_left_out_are_marked() -> None:
    assert "9 *cell_to_input_weights*, " in section("LSTM")
    assert "23 *input_layer_norm_weights*, " in section("LSTM")
    assert "18 output_state: " in section("LSTM")
    assert "2 *axis*, " in section("SOFTMAX")


def test_every_input_of_every_form_has_its_number_and_its_name() -> None:
    for operation, forms in FORMS.items():
        for form in forms:
            for member in form.names or ():
                if member in form.inputs:
                    assert re.search(
                        rf"[ ,]{member.value} \*?{member.name.lower()}\*?[,:.] ", section(operation.name)
                    ), member
