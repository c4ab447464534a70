from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from nnhal_cascade.geometry.box import Axis, Shape, whole
from nnhal_cascade.graph.matchers import build_graph
from nnhal_cascade.hardware.memory_file import system_for
from nnhal_cascade.plans.plan import Plan, WeightsIn
from nnhal_cascade.stream.commands import AllocateTensor, CommandStream, RunStripe
from nnhal_cascade.stream.disassembler import disassemble
from nnhal_cascade.stream.emit import emit
from tests.support.schedules import cascade, schedule_of
from tests.support.small_networks import two_convs

SYSTEM = system_for("u55-128")
GRAPH = build_graph(two_convs())
DIGEST = b"0123456789abcdef"


def text_of(plans: Sequence[Plan]) -> str:
    return disassemble(replace(emit(schedule_of(GRAPH, SYSTEM, plans)), digest=DIGEST))


def test_a_cascade_as_text() -> None:
    assert text_of([cascade(GRAPH, [0, 1], 4, weights=WeightsIn.RESIDENT)]) == CASCADE


def test_double_buffering_as_text() -> None:
    halves = cascade(GRAPH, [0], 5, Axis.CHANNELS, WeightsIn.DOUBLE_BUFFERED)
    assert text_of([halves, cascade(GRAPH, [1], 99)]) == DOUBLE_BUFFERED


def test_what_has_no_name_is_shown_by_its_number() -> None:
    one = Shape(1, 1, 1)
    commands = (AllocateTensor(3, "sram", 16, one), RunStripe(2, whole(one), (whole(one),), WeightsIn.STREAMED))
    _, allocated, ran = disassemble(CommandStream(commands, DIGEST, ())).splitlines()
    assert "allocate  tensor 3  sram[0x000010]" in allocated
    assert "run       part 2" in ran


def test_an_empty_stream_has_a_title() -> None:
    expected = "; 0 commands for the graph 30313233343536373839616263646566, in no memory\n"
    assert disassemble(CommandStream((), DIGEST, ())) == expected


CASCADE = """\
; 25 commands for the graph 30313233343536373839616263646566, in 3032 bytes of sram
plan      0
allocate  image                          sram[0x000000]   12 x 12 x 8                             ; 1152 bytes
load      image                                                                                   ; 1152 bytes
allocate  conv_1                         sram[0x000480]   8 x 10 x 8                              ; 640 bytes, rows roll
allocate  conv_2                         sram[0x000700]   8 x 8 x 4                               ; 256 bytes
allocate  constants of conv_1 (CONV_2D)  sram[0x000800]   1 x 656                                 ; 656 bytes
allocate  constants of conv_2 (CONV_2D)  sram[0x000a90]   1 x 328                                 ; 328 bytes
copy      constants of conv_1 (CONV_2D)  channels 0..7    -> slot 0                               ; 656 bytes
copy      constants of conv_2 (CONV_2D)  channels 0..3    -> slot 0                               ; 328 bytes
run       conv_1 (CONV_2D)               rows 0..3 of 10  <- image[rows 0..5]   weights resident  ; 320 bytes
roll      image                          rows 0..3
run       conv_1 (CONV_2D)               rows 4..7 of 10  <- image[rows 4..9]   weights resident  ; 320 bytes
roll      image                          rows 4..7
run       conv_2 (CONV_2D)               rows 0..3 of 8   <- conv_1[rows 0..5]  weights resident  ; 128 bytes
roll      conv_1                         rows 0..3
run       conv_1 (CONV_2D)               rows 8..9 of 10  <- image[rows 8..11]  weights resident  ; 160 bytes
roll      image                          rows 8..11
run       conv_2 (CONV_2D)               rows 4..7 of 8   <- conv_1[rows 4..9]  weights resident  ; 128 bytes
roll      conv_1                         rows 4..9
release   constants of conv_1 (CONV_2D)
release   constants of conv_2 (CONV_2D)
release   image
release   conv_1
store     conv_2                                                                                  ; 256 bytes
release   conv_2
"""
DOUBLE_BUFFERED = """\
; 19 commands for the graph 30313233343536373839616263646566, in 3028 bytes of sram
plan      0
allocate  image                          sram[0x000000]      12 x 12 x 8                        ; 1152 bytes
load      image                                                                                 ; 1152 bytes
allocate  conv_1                         sram[0x000480]      10 x 10 x 8                        ; 800 bytes
allocate  constants of conv_1 (CONV_2D)  sram[0x0008a0]      2 x 410                            ; 820 bytes
copy      constants of conv_1 (CONV_2D)  channels 0..4       -> slot 0                          ; 410 bytes
copy      constants of conv_1 (CONV_2D)  channels 5..7       -> slot 1                          ; 246 bytes
run       conv_1 (CONV_2D)               channels 0..4 of 8  <- image[all]   weights in slot 0  ; 500 bytes
run       conv_1 (CONV_2D)               channels 5..7 of 8  <- image[all]   weights in slot 1  ; 300 bytes
roll      image                          channels 0..7
release   constants of conv_1 (CONV_2D)
release   image
plan      1
allocate  conv_2                         sram[0x0007a0]      8 x 8 x 4                          ; 256 bytes
run       conv_2 (CONV_2D)               all                 <- conv_1[all]  weights streamed   ; 256 bytes
roll      conv_1                         rows 0..9
release   conv_1
store     conv_2                                                                                ; 256 bytes
release   conv_2
"""
