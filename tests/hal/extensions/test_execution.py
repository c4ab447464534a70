"""The hint that gives an execution a priority."""

from __future__ import annotations

import pytest

from nnhal.extensions.execution import NAME, hinted_priority, priority_hints
from nnhal.types import ExecutionConfig, ExtensionNameAndPrefix, Hints, Priority, TokenValuePair
from nnhal_devices.host.runs.prepared_model import validate_config
from tests.support.refusals import INVALID, refusal

OTHER = ExtensionNameAndPrefix("com.example.hints", 7)


def config(hints: Hints) -> ExecutionConfig:
    return ExecutionConfig(execution_hints=hints.values, extension_name_to_prefix=hints.extension_names)


@pytest.mark.parametrize("priority", list(Priority))
def test_it_gives_a_priority_and_is_valid_for_any_device(priority: Priority) -> None:
    hinted = config(priority_hints(priority))
    validate_config(hinted)
    assert hinted_priority(hinted) is priority


def test_without_the_hint_the_priority_is_none() -> None:
    assert hinted_priority(ExecutionConfig()) is None
    assert hinted_priority(config(Hints((TokenValuePair(0x7_0000, b"\2\0\0\0"),), (OTHER,)))) is None


def test_it_goes_by_the_name_of_the_extension_and_among_others() -> None:
    values = (TokenValuePair(0x7_0000, b"?"), TokenValuePair(0x9_0001, b"?"), TokenValuePair(0x9_0000, b"\2\0\0\0"))
    assert hinted_priority(config(Hints(values, (OTHER, ExtensionNameAndPrefix(NAME, 9))))) is Priority.HIGH


@pytest.mark.parametrize("value", [b"", b"\1", b"\3\0\0\0", b"\xff\xff\xff\xff", b"\1\0\0\0\0", bytes(999)])
def test_an_invalid_priority_is_refused(value: bytes) -> None:
    hints = Hints((TokenValuePair(0x9_0000, value),), (ExtensionNameAndPrefix(NAME, 9),))
    refusal(lambda: hinted_priority(config(hints)), INVALID, "expected 4 bytes with 0 to 2, little-endian")
