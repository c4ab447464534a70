from __future__ import annotations

import json

import pytest

from nnhal_mlip.flow.files.json_text import parse, to_text


def test_objects_have_a_line_for_each_member_and_lists_are_whole() -> None:
    value = {"a": ["1", "2"], "b": {}, "c": [{"d": [[1, 2]]}, {"e": 'x"y'}], "f": []}
    text = to_text(value)
    assert json.loads(text) == parse(text) == value
    assert text.splitlines()[:3] == ["{", ' "a": ["1", "2"],', ' "b": {},']
    assert '   "d": [[1, 2]]' in text.splitlines()


def test_a_key_that_is_there_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="key 'b' is there twice"):
        parse('{"a": {"b": 1, "c": 2, "b": 3}}')
