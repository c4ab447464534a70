"""Configurations that a browser uploads: what is long or nested is refused before it is parsed, or in words."""

from __future__ import annotations

import json

import pytest

from nnhal_dashboard.pages.models.model_files import config_json


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"a":[' + b"[]," * 400_000 + b"0]}", "has 1200009 bytes, expected 1048576 at the most"),
        (b"[" * 100_000, "configuration 'config.json'"),
        (b"\xff", "configuration 'config.json'"),
    ],
)
def test_what_is_no_configuration_is_refused(content: bytes, message: str) -> None:
    with pytest.raises(ValueError, match="configuration") as caught:
        config_json("config.json", content)
    assert message in str(caught.value)


def test_a_configuration_is_passed_on() -> None:
    assert json.loads(config_json("config.json", b'{"max_batch_size": 8}')) == {"max_batch_size": 8}
    assert json.loads(config_json("config.pbtxt", b"max_batch_size: 8")) == {"max_batch_size": 8}
