from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from struct import Struct, pack_into
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnhal_cascade.geometry.box import Axis, Box, Interval, Shape
from nnhal_cascade.graph.matchers import build_graph
from nnhal_cascade.hardware.memory_file import system_for
from nnhal_cascade.plans.plan import WeightsIn
from nnhal_cascade.stream.binary import from_bytes, to_bytes
from nnhal_cascade.stream.commands import (
    DIGEST_BYTES,
    AllocateConstants,
    AllocateTensor,
    BeginPlan,
    CommandStream,
    CopyConstants,
    LoadInput,
    PartSymbol,
    ReleaseConstants,
    ReleaseTensor,
    Roll,
    RunStripe,
    StoreOutput,
    TensorSymbol,
)
from nnhal_cascade.stream.emit import emit
from tests.support.schedules import cascade, schedule_of
from tests.support.small_networks import two_convs

NUMBERS = st.integers(0, (1 << 32) - 1)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
INTERVALS = st.builds(Interval, NUMBERS, NUMBERS)
BOXES = st.builds(Box, INTERVALS, INTERVALS, INTERVALS)
SHAPES = st.builds(Shape, NUMBERS, NUMBERS, NUMBERS)
REGIONS = st.sampled_from(["sram", "dram"])
COMMANDS = st.one_of(
    st.builds(BeginPlan, NUMBERS),
    st.builds(AllocateTensor, NUMBERS, REGIONS, NUMBERS, SHAPES),
    st.builds(AllocateConstants, NUMBERS, REGIONS, NUMBERS, NUMBERS, NUMBERS),
    st.builds(LoadInput, NUMBERS),
    st.builds(StoreOutput, NUMBERS),
    st.builds(CopyConstants, NUMBERS, INTERVALS, NUMBERS),
    st.builds(RunStripe, NUMBERS, BOXES, st.lists(BOXES, max_size=3).map(tuple), st.sampled_from(WeightsIn), NUMBERS),
    st.builds(Roll, NUMBERS, st.sampled_from(Axis), INTERVALS),
    st.builds(ReleaseTensor, NUMBERS),
    st.builds(ReleaseConstants, NUMBERS),
)
STREAMS = st.builds(
    CommandStream,
    st.lists(COMMANDS, max_size=20).map(tuple),
    st.binary(min_size=DIGEST_BYTES, max_size=DIGEST_BYTES),
    st.tuples(st.integers(0, 1 << 50), st.integers(0, 1 << 50)).map(lambda n: (("sram", n[0]), ("dram", n[1]))),
    st.lists(st.builds(TensorSymbol, TEXT, SHAPES, st.integers(0, 255)), max_size=3).map(tuple),
    st.lists(st.builds(PartSymbol, TEXT, NUMBERS, st.lists(NUMBERS, max_size=3).map(tuple), NUMBERS), max_size=3).map(
        tuple
    ),
)


@given(STREAMS)
def test_a_stream_survives(stream: CommandStream) -> None:
    assert from_bytes(to_bytes(stream)) == stream


@given(STREAMS, st.data())
def test_no_damage_goes_unnoticed(stream: CommandStream, data: st.DataObject) -> None:
    content = bytearray(to_bytes(stream))
    # The digest is not covered by the CRC: a machine compares it with that of its graph.
    body = st.integers(0, 19) | st.integers(20 + DIGEST_BYTES, len(content) - 1)
    position = data.draw(body, "position")
    content[position] ^= data.draw(st.integers(1, 255), "flipped bits")
    if position not in (6, 7):  # these are padding
        with pytest.raises(ValueError, match="command stream"):
            from_bytes(bytes(content))


def stream_of_two_convs() -> CommandStream:
    graph = build_graph(two_convs())
    return emit(schedule_of(graph, system_for("u55-128"), [cascade(graph, [0, 1], 1)]))


def test_bytes_after_the_last_section_are_refused() -> None:
    content = to_bytes(stream_of_two_convs())
    header = Struct(f"<4sHxxQI{DIGEST_BYTES}s")
    magic, version, length, _, digest = header.unpack_from(content)
    body = content[header.size :] + b"more"
    longer = header.pack(magic, version, length + 4, crc32(body), digest) + body
    with pytest.raises(ValueError, match="whose sections end at byte"):
        from_bytes(longer)


def changed(offset: int, layout: str, value: object) -> Callable[[bytes], bytes]:
    def change(content: bytes) -> bytes:
        result = bytearray(content)
        pack_into(layout, result, offset, value)
        return bytes(result)

    return change


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (changed(0, "<4s", b"TFL3"), "no command stream: it starts with b'TFL3', expected b'NNCS'"),
        (lambda _: b"", "no command stream: it starts with b'', expected b'NNCS'"),
        (lambda content: content[:20], "a command stream of 20 bytes, expected at least 36: the header"),
        (changed(4, "<H", 9), "a command stream of version 9, expected 1"),
        (
            lambda content: content[:-5],
            "a command stream of {short} bytes, expected {length}: its header says so",
        ),
        (lambda content: content + b"12345", "a command stream of {long} bytes, expected {length}: its header says so"),
        (changed(60, "<B", 255), "a damaged command stream: its CRC-32 is {found}, expected {crc}"),
    ],
)
def test_what_is_no_stream_is_refused(change: Callable[[bytes], bytes], sentence: str) -> None:
    content = to_bytes(stream_of_two_convs())
    given_bytes = change(content)
    values = {
        "length": len(content),
        "short": len(content) - 5,
        "long": len(content) + 5,
        "crc": f"{crc32(content[36:]):08x}",
        "found": f"{crc32(given_bytes[36:]):08x}",
    }
    with pytest.raises(ValueError) as caught:
        from_bytes(given_bytes)
    assert str(caught.value) == sentence.format(**values)


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        (LoadInput(-1), "LoadInput with the number -1, expected 0 to 4294967295"),
        (
            AllocateTensor(0, "tcm", 0, Shape(1, 1, 1)),
            "command 0 names the region 'tcm', expected one of ['sram']",
        ),
    ],
)
def test_a_command_that_has_no_binary_form_is_refused(command: LoadInput | AllocateTensor, sentence: str) -> None:
    stream = replace(stream_of_two_convs(), commands=(command,))
    with pytest.raises(ValueError) as caught:
        to_bytes(stream)
    assert str(caught.value) == sentence
