from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnhal_mlip.program.errors import BinaryError
from nnhal_mlip.program.program import LayerSplit
from nnhal_mlip.program.words import RecordReader, RecordWriter

MAGIC = b"TEST"


def reader_of(data: bytes) -> RecordReader:
    return RecordReader(data, MAGIC, 1, "a record", 100)


def record(*words: int) -> RecordReader:
    writer = RecordWriter()
    writer.words(*words)
    return reader_of(writer.finish(MAGIC, 1))


@given(
    st.lists(st.integers(0, (1 << 63) - 1)),
    st.lists(st.integers(-(1 << 62), (1 << 62) - 1)),
    st.lists(st.floats(allow_nan=False)),
    st.lists(st.text(st.characters(exclude_categories=["Cs"]))),
)
def test_a_record_gives_what_it_took(words: list[int], signed: list[int], reals: list[float], texts: list[str]) -> None:
    writer = RecordWriter()
    writer.words(*words)
    writer.signed(*signed)
    writer.reals(*reals)
    for text in texts:
        writer.text(text)
    reader = reader_of(writer.finish(MAGIC, 1))
    assert reader.words(len(words)) == words
    assert reader.signed(len(signed)) == signed
    assert reader.reals(len(reals)) == reals
    assert [reader.text("text") for _ in texts] == texts
    reader.finish()


def test_a_word_that_is_too_large_is_refused_at_its_byte() -> None:
    reader = record(300, 5)
    reader.word()
    with pytest.raises(BinaryError, match=r"x in a record is 5, expected less than 5 \(byte 122 of") as caught:
        reader.below("x", 5)
    assert caught.value.offset == 100 + 20 + 2


def test_a_word_that_is_no_member_is_refused() -> None:
    with pytest.raises(BinaryError, match="split in a record is 7, expected one of 0, 1"):
        record(7).choice("split", LayerSplit)


def test_a_count_of_more_than_there_is_is_refused() -> None:
    with pytest.raises(BinaryError, match="number of stages in a record is 1099511627776, expected less than 3"):
        record(1 << 40, 0, 0).count("number of stages")


def test_content_that_nobody_asked_for_is_refused() -> None:
    reader = record(1, 2)
    reader.word()
    with pytest.raises(BinaryError, match=r"is \(2, 0, 0\), expected \(1, 0, 0\)"):
        reader.finish()


@pytest.mark.parametrize(
    "word, problem",
    [(b"\x80", "cut off"), (b"\x81\x00", "is 2, expected as few"), (b"\x80" * 9 + b"\x01", "is 10, expected as few")],
)
def test_a_word_that_is_not_as_short_as_it_may_be_is_refused(word: bytes, problem: str) -> None:
    sound = RecordWriter().finish(MAGIC, 1)
    with pytest.raises(BinaryError, match=problem):
        reader_of(sound[:8] + len(word).to_bytes(4, "little") + sound[12:] + word)


def test_a_text_that_is_no_utf8_is_refused() -> None:
    writer = RecordWriter()
    writer.text("ab")
    data = writer.finish(MAGIC, 1)
    with pytest.raises(BinaryError, match="UTF-8"):
        reader_of(data[:-1] + b"\xff").text("a name")
