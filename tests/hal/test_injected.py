from __future__ import annotations

import pytest

from nnhal.injected import injected_fault, injected_faults_in, injected_faults_of
from nnhal.types import Copy


@pytest.mark.parametrize("name", ["lost", "with 'quotes'", "with \"both\" 'kinds'", "back\\slash", "a\nline", ""])
def test_a_message_names_a_fault_so_that_it_is_found_again(name: str) -> None:
    message = f"GENERAL_FAILURE: the step on npu0: {injected_fault(name)}: gone; and then {injected_fault('second')}"
    assert injected_faults_in(message) == [name, "second"]


def test_messages_without_faults_name_none() -> None:
    assert injected_faults_in("an injected fault, and 'a quote'") == []


def test_what_an_execution_has_noted_is_told_in_brackets() -> None:
    copies = [Copy(False, 5, 0, 1), Copy(False, 0, 1, 2, injected="late"), Copy(False, 0, 1, 2, injected="bad")]
    assert injected_faults_of(copies) == " (injected fault 'late', injected fault 'bad')"
    assert injected_faults_of(copies[:1]) == ""
