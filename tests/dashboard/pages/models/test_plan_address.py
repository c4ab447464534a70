"""Pins that are tried, in the address of a page."""

from __future__ import annotations

import pytest

from nnhal_dashboard.pages.models.plan_address import MOST_PINS, PinChoice, chosen_numbers


def test_a_choice_is_what_its_query_says() -> None:
    choice = PinChoice((("name:a=b*", "npu"), ("op:ADD", "cpu")), ("npu", "cpu"))
    assert PinChoice.of([text for name, text in choice.query if name == "pin"], ["npu", "cpu"]) == choice


def test_no_pins_can_be_tried_too() -> None:
    assert PinChoice.of([], []) is None
    assert PinChoice.of([""], []) == PinChoice(())
    assert PinChoice(()).query == (("pin", ""),)


@pytest.mark.parametrize("text", ["name:a", "=npu", "name:a="])
def test_a_pin_needs_a_match_and_a_device(text: str) -> None:
    with pytest.raises(ValueError, match="expected MATCH=DEVICE"):
        PinChoice.of([text], [])


def test_neighbours_become_one_pin_and_a_later_pin_counts() -> None:
    choice = PinChoice((("index:7", "cpu"), ("op:ADD", "cpu"))).pinned([3, 7, 1, 2, 3], "npu")
    assert choice.pins == (("op:ADD", "cpu"), ("index:1-3", "npu"), ("index:7", "npu"))


def test_a_pin_is_removed_by_its_place() -> None:
    assert PinChoice((("a", "x"), ("b", "x"), ("c", "x"))).without(1).pins == (("a", "x"), ("c", "x"))


def test_operations_are_chosen_one_by_one_and_by_a_range() -> None:
    assert chosen_numbers(["5"], "2", "0", 9) == [5, 0, 1, 2]
    assert chosen_numbers([], "", "4", 9) == [4]


@pytest.mark.parametrize("first", ["9", "-1", "x", "٣", "9" * 30])
def test_a_number_that_no_operation_has_is_refused(first: str) -> None:
    with pytest.raises(ValueError, match="expected a number from 0 to 8"):
        chosen_numbers([], first, "", 9)


def test_nothing_chosen_is_refused() -> None:
    with pytest.raises(ValueError, match="no operation is chosen"):
        chosen_numbers([], "", "", 9)


def test_no_address_has_more_pins_than_a_page_can_lead_from() -> None:
    pins = [f"index:{number}=cpu" for number in range(MOST_PINS)]
    assert PinChoice.of(pins, []) is not None
    with pytest.raises(ValueError, match=f"{MOST_PINS + 1} pins"):
        PinChoice.of([*pins, "index:9=npu"], [])
