"""The text of pins in a configuration."""

from __future__ import annotations

import fnmatch
import glob
from random import Random

import pytest

from nnhal.codec.bounds import MAX_PINS
from nnhal_service.partition import Pin
from nnhal_service.repository.placement import pins_of, text_of
from nnhal_service.serving.errors import ServingError

NASTY = [
    "a;b",
    "a=b;op:ADD=npu",
    "two\nlines",
    " around ",
    "tab\t",
    "[x]",
    "*",
    "what?",
    "back\\slash",
    "ends\\",
    "é😀",
]


def test_pins_stand_between_semicolons_or_line_ends() -> None:
    text = "name:/backbone/*=ethos_n; op:SOFTMAX = cpu_acc\nindex:3-7=npu;;"
    assert pins_of(text) == (
        Pin("name:/backbone/*", "ethos_n"),
        Pin("op:SOFTMAX", "cpu_acc"),
        Pin("index:3-7", "npu"),
    )


@pytest.mark.parametrize("name", NASTY)
def test_a_node_of_any_name_can_be_pinned_by_a_text(name: str) -> None:
    (pin,) = pins_of(text_of([Pin(f"name:{glob.escape(name)}", "npu")]))
    assert pin.device == "npu"
    assert fnmatch.fnmatchcase(name, pin.match.removeprefix("name:"))


def test_pins_are_read_as_they_are_written() -> None:
    random = Random(3)
    for _ in range(200):
        matches = ["name:x" + "".join(random.choices("ab;=\n*?[]\\: ", k=random.randint(0, 8))) + "z" for _ in range(3)]
        pins = tuple(Pin(match, random.choice(("npu", "cpu_ref"))) for match in matches)
        assert pins_of(text_of(pins)) == pins


@pytest.mark.parametrize("text", ["conv=npu", "op:CONV_2D", "name:=npu", "node:x=npu", "index:3="])
def test_a_text_that_is_no_pin_is_an_error(text: str) -> None:
    with pytest.raises(ServingError, match="expected MATCH=DEVICE"):
        pins_of(f"op:ADD=npu; {text}")


def test_pins_are_bounded() -> None:
    assert len(pins_of(";".join(["op:ADD=npu"] * MAX_PINS))) == MAX_PINS
    with pytest.raises(ServingError, match=f"nnhal.placement has {MAX_PINS + 1} pins, expected at most {MAX_PINS}"):
        pins_of(";".join(["op:ADD=npu"] * (MAX_PINS + 1)))
