"""Output of Vela's two cores, in a few lines of each."""

from __future__ import annotations

import pytest

from benchmarks.compilers.reports import VelaBuffer, cpu_operations, parse_schedule, parse_summary
from nnhal_cascade.geometry.box import Shape

REGOR = """\
Warning: No memory mode specified.
Schedule: 'graph_MIN_BUFFERED'
	0: Operation Conv2D  - OFM 1, 112, 112, 32 (in Sram)
		Kernel: size=3,3 stride=2,2, dilation=1,1 padding=[t:0,l:0,b:1,r:1,n:0,f:0]
		Time index = 0
		IFM Stripe   = [1, 3, 224, 3]
		OFM Stripe   = [1, 1, 112, 32]
		Assigned Cascade = 1
		Encoded Weights = 1520 bytes
		Weight buffer = 0 bytes (None)
		Depth slices = [0, 32]
		sub-operations: [ Relu6 ]
	1: Operation DepthwiseConv2D  - OFM 1, 112, 112, 32 (in Sram)
		OFM Stripe   = [1, 4, 112, 32]
		Assigned Cascade = 1
		Encoded Weights = 672 bytes
		Weight buffer = 672 bytes (Single)
		Depth slices = [0, 32]
	2: Operation Conv2D  - OFM 1, 28, 28, 256 (in Sram)
		OFM Stripe   = [1, 28, 28, 256]
		Assigned Cascade = 0
		Encoded Weights = 65136 bytes
		Weight buffer = 65136 bytes (Double)
		Depth slices = [0, 240, 256]
	3: Operation AvgPool  - OFM 1, 1, 1, 256 (in Sram)
		OFM Stripe   = [1, 1, 1, 256]
		Assigned Cascade = 0
		sub-operations: -
	Cascades:
		1: 0 -> 1, size: 482576
"""
LEGACY = """\
Schedule: 'main_split_1_MIN_BUFFERED'
	0: Operation model/re_lu/Relu6;model/conv2d/Conv2D  - OFM <Shape4D [1, 25, 5, 64]>
		Type: Conv2DBias
		OFM Block = <Shape4D [1, 1, 64, 32]>
		OFM Stripe   = <Shape4D [1, 25, 5, 64]>
		Encoded Weights = 4432 bytes
		Weight buffer1 = 1120 bytes
		Weight buffer2 = 3312 bytes
		Depth slices = [0, 16, 64]
		Assigned Cascade = 0
		SRAM Used: 489744 bytes
	1: Operation model/depthwise  - OFM <Shape4D [1, 25, 5, 64]>
		OFM Stripe   = <Shape4D [1, 25, 5, 64]>
		Encoded Weights = 1300 bytes
		Weight buffer1 = 1300 bytes
		Depth slices = [0, 64]
		Assigned Cascade = 0
	2: Operation model/pool  - OFM <Shape4D [1, 1, 1, 64]>
		OFM Stripe   = <Shape4D [1, 1, 1, 64]>
		Encoded Weights = None bytes
		Depth slices = [0, 64]
		Assigned Cascade = 0
	Cascades:
"""
SUMMARY = "experiment,sram_memory_used,cycles_total\ndefault,505.09375,8149295.6\n"


def test_regors_operations_have_their_shapes_cascades_and_buffers() -> None:
    conv, depthwise, second, pool = parse_schedule(REGOR).operations
    assert (conv.name, conv.output, conv.stripe) == ("Conv2D", Shape(112, 112, 32), Shape(1, 112, 32))
    assert [each.cascade for each in (conv, depthwise, second, pool)] == [1, 1, 0, 0]
    assert (conv.buffer, depthwise.buffer) == (VelaBuffer.NONE, VelaBuffer.SINGLE)
    assert (second.buffer, second.slices) == (VelaBuffer.DOUBLE, (0, 240, 256))
    assert (pool.buffer, pool.slices) == (VelaBuffer.NONE, ())


def test_the_legacy_cores_operations_have_the_same() -> None:
    conv, depthwise, pool = parse_schedule(LEGACY).operations
    assert (conv.name, conv.output) == ("model/re_lu/Relu6;model/conv2d/Conv2D", Shape(25, 5, 64))
    assert (conv.buffer, conv.slices) == (VelaBuffer.DOUBLE, (0, 16, 64))
    assert (depthwise.buffer, depthwise.slices) == (VelaBuffer.SINGLE, (0, 64))
    assert (pool.buffer, pool.slices) == (VelaBuffer.NONE, ())


def test_operations_of_a_cascade_have_its_number_and_others_none() -> None:
    assert [each.cascade for each in parse_schedule(REGOR).operations] == [1, 1, 0, 0]
    assert [each.cascade for each in parse_schedule(LEGACY).operations] == [0, 0, 0]


def test_the_summary_has_bytes_and_cycles() -> None:
    found = parse_summary(SUMMARY)
    assert (found.sram, found.cycles, found.weights) == (517_216, 8_149_296, 0)
    lines = SUMMARY.splitlines()
    assert parse_summary(f"{lines[0]},total_npu_encoded_weights\n{lines[1]},23808\n").weights == 23_808


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no line with 'Operation'"),
        ("\t0: Operation Conv2D  - OFM 1, 2, 3, 4 (in Sram)\n", "operation 0 has no usable stripe"),
        ("\t0: Operation X  - OFM []\n\t\tOFM Stripe = [1, 1, 1, 1]\n\t\tAssigned Cascade = 0\n", "no dimensions"),
    ],
)
def test_what_is_no_schedule_is_refused(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        parse_schedule(text)


def test_axes_in_front_are_rows() -> None:
    text = "\t0: Operation X  - OFM 1, 4, 2, 4, 24\n\t\tOFM Stripe = [1, 192]\n\t\tAssigned Cascade = 0\n"
    (given,) = parse_schedule(text).operations
    assert (given.output, given.stripe) == ((8, 4, 24), (1, 1, 192))


@pytest.mark.parametrize("text", ["", "a,b\n1,2\n", "sram_memory_used,cycles_total\n1,many\n"])
def test_what_is_no_summary_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no usable sram_memory_used and cycles_total"):
        parse_summary(text)


def test_what_is_left_to_the_cpu() -> None:
    lines = (
        "CPU operators = 2 (66.7%)",
        "   CPU: Passthrough = states (outputs [1])",
        "   CPU: NEG = negated (outputs [4])",
    )
    assert cpu_operations("\n".join([*lines, "   NPU: Sub = x (outputs [1])"])) == ("NEG",)
    warned = "Warning (supported operators) operator: UNPACK, ofm: 'x'\n"
    assert cpu_operations(warned + lines[1]) == ("UNPACK",)
    nothing = "\t9: Operation Passthrough  - OFM  (in Sram)\n\t\tCPU Operation\n"
    assert parse_schedule(REGOR + nothing) == parse_schedule(REGOR)
