"""TFLite files with words at extremes: they are imported, or refused in words, in little memory."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnhal_frontends import ModelFormat, import_model
from nnhal_frontends.errors import FrontendError
from tests.support.drawn_values import random
from tests.support.plain_words import require_plain
from tests.support.process_limits import memory_limit
from tests.support.searching import search
from tests.support.tflite_files import floats
from tests.support.tflite_operators import one

SPARE = 1 << 30
CONTENT = one("ADD", [floats(2, 3), random(3)], floats(2, 3), ("AddOptions", {"FusedActivationFunction": 1})).file()
WORDS = [struct.pack("<I", number) for number in (0, 1, 99, 2**31 - 1, 2**31, 2**32 - 1, 0x7F800000, 0x7FC00000)]
PLACES = range(8, len(CONTENT) - 4)
"""All bytes but those of the identifier."""


@pytest.mark.slow
@search(100)
@given(st.lists(st.tuples(st.sampled_from(PLACES), st.sampled_from(WORDS)), min_size=1, max_size=3))
def test_words_at_extremes_are_imported_or_refused_in_words(changes: list[tuple[int, bytes]]) -> None:
    content = bytearray(CONTENT)
    for place, word in changes:
        content[place : place + 4] = word
    with memory_limit(SPARE):
        try:
            import_model(bytes(content), ModelFormat.TFLITE)
        except FrontendError as error:
            require_plain(str(error), changes)
