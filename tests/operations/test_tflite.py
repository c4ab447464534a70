"""TFLite operators become operations, which compute what LiteRT does, or are refused in words."""

from __future__ import annotations

import re

import pytest

from tests.operations.tflite_tables import FORMS, TfliteForm


@pytest.mark.parametrize("form", [form for form in FORMS if not form.words], ids=lambda form: form.operator.code)
def test_an_operator_becomes_operations(form: TfliteForm) -> None:
    assert form.operator.check(**form.limits) == form.expected


@pytest.mark.parametrize("form", [form for form in FORMS if form.words], ids=lambda form: form.operator.code)
def test_an_operator_is_refused_in_words(form: TfliteForm) -> None:
    assert re.search(form.words, form.operator.refusal())
