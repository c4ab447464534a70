"""Prices of stripes."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnhal_cascade.geometry.box import Shape
from nnhal_cascade.graph.cascader_graph import Activation, CascaderGraph, Kernel, PartKind
from nnhal_cascade.hardware.accelerators import ACCELERATORS
from nnhal_cascade.hardware.memory_file import system_for
from nnhal_cascade.performance.price import Price, StripePlaces
from nnhal_cascade.performance.stripe_pricer import BlockGoal, StripePricer
from tests.support.cascader_parts import SCALE_BYTES, one_part
from tests.support.searching import search

CONVOLUTION, DEPTHWISE, POOLING = PartKind.CONVOLUTION, PartKind.DEPTHWISE, PartKind.POOLING
ELEMENTWISE, COPY = PartKind.ELEMENTWISE, PartKind.COPY
CLAMP = Activation.CLAMP

RESIDENT = StripePlaces(("sram",), "sram", "sram")
STREAMED = StripePlaces(("sram",), "sram", "flash")


class Layer(NamedTuple):
    """An operation of MobileNet, V1 or V2."""

    kind: PartKind
    input: tuple[int, int, int]
    output: tuple[int, int, int]
    kernel: Kernel
    activation: Activation = CLAMP
    operation: str = ""

    def graph(self) -> CascaderGraph:
        inputs = (self.input, self.input) if self.operation == "ADD" else (self.input,)
        return one_part(
            self.kind,
            inputs,
            self.output,
            kernel=self.kernel,
            activation=self.activation,
            operation=self.operation,
        )


DEPTHWISE_112 = Layer(DEPTHWISE, (112, 112, 32), (112, 112, 32), Kernel(3, 3))
POINTWISE_112 = Layer(CONVOLUTION, (112, 112, 32), (112, 112, 64), Kernel())
STRIDED_56 = Layer(DEPTHWISE, (112, 112, 64), (56, 56, 64), Kernel(3, 3, 2, 2))
STRIDED_28 = Layer(DEPTHWISE, (56, 56, 128), (28, 28, 128), Kernel(3, 3, 2, 2))
POINTWISE_7 = Layer(CONVOLUTION, (7, 7, 512), (7, 7, 1024), Kernel())
POOL = Layer(POOLING, (7, 7, 1024), (1, 1, 1024), Kernel(7, 7), Activation.NONE, "AVERAGE_POOL_2D")
SUM_14 = Layer(ELEMENTWISE, (14, 14, 64), (14, 14, 64), Kernel(), Activation.NONE, "ADD")

VELA = {
    ("u55-32", DEPTHWISE_112): ((8, 8, 16), 1206272),
    ("u55-32", POINTWISE_112): ((3, 8, 64), 1635840),
    ("u55-32", POINTWISE_7): ((4, 7, 48), 952310),
    ("u55-32", POOL): ((1, 1, 96), 13447),
    ("u55-32", SUM_14): ((8, 12, 32), 75264),
    ("u55-64", STRIDED_56): ((5, 8, 16), 323200),
    ("u55-64", POINTWISE_112): ((3, 8, 64), 817920),
    ("u55-64", POINTWISE_7): ((4, 7, 48), 476198),
    ("u55-64", SUM_14): ((8, 12, 32), 37632),
    ("u55-128", DEPTHWISE_112): ((7, 12, 16), 323232),
    ("u55-128", POINTWISE_112): ((4, 16, 32), 401936),
    ("u55-128", STRIDED_56): ((8, 8, 16), 151049),
    ("u55-128", STRIDED_28): ((6, 10, 16), 86889),
    ("u55-128", POINTWISE_7): ((7, 8, 32), 231478),
    ("u55-128", POOL): ((1, 2, 96), 6793),
    ("u55-128", SUM_14): ((8, 8, 64), 18816),
    ("u55-256", DEPTHWISE_112): ((14, 14, 16), 151312),
    ("u55-256", POINTWISE_7): ((8, 8, 64), 133479),
    ("u55-256", SUM_14): ((12, 14, 48), 9408),
}
"""Block, and cycles of the NPU, that Vela 5.2.0 (legacy core) reports for layers that it does not cut.

They are layers for which arithmetic and output take longer than the memories do."""


def price(pricer: StripePricer, layer: Layer, output: Shape | None = None, places: StripePlaces = RESIDENT) -> Price:
    """The price of the whole layer, or of a stripe of it whose input is not cut off by a border."""
    whole = Shape(*layer.output)
    inputs = Shape(*layer.input)
    if output is not None:
        kernel = layer.kernel
        rows = (output.rows - 1) * kernel.stride_y + kernel.height
        inputs = inputs._replace(rows=min(inputs.rows, rows))
    count = 2 if layer.operation == "ADD" else 1
    constants = places.constants if layer.kind in (CONVOLUTION, DEPTHWISE) else ""
    return pricer.price(
        0, output or whole, (inputs,) * count, StripePlaces(places.inputs * count, places.output, constants)
    )


@pytest.mark.parametrize(("case", "expected"), VELA.items(), ids=lambda each: str(each)[:60])
def test_whole_layers_cost_what_vela_says_by_its_goal(
    case: tuple[str, Layer], expected: tuple[tuple[int, int, int], int]
) -> None:
    name, layer = case
    pricer = StripePricer(layer.graph(), system_for(name), BlockGoal.FETCHES)
    block, cycles = expected
    assert pricer.block(0, Shape(*layer.output)) == tuple(map(min, block, layer.output))
    found = price(pricer, layer)
    # Vela cuts the fraction of the sum off; a price rounds each of its two terms up.
    assert 0 <= found.cycles + found.fill - cycles <= 2


@pytest.mark.parametrize("layer", [DEPTHWISE_112, POINTWISE_112, STRIDED_56, POINTWISE_7, POOL, SUM_14])
@pytest.mark.parametrize("name", ACCELERATORS)
@pytest.mark.parametrize("rows", [1, 2, 3, 7, 56])
def test_no_stripe_takes_longer_than_by_the_block_of_fewest_fetches(name: str, layer: Layer, rows: int) -> None:
    stripe = Shape(*layer.output)._replace(rows=min(rows, layer.output[0]))
    fastest = price(StripePricer(layer.graph(), system_for(name)), layer, stripe)
    fetches = price(StripePricer(layer.graph(), system_for(name), BlockGoal.FETCHES), layer, stripe)
    # Each of four terms is rounded up.
    assert fastest.cycles + fastest.fill <= fetches.cycles + fetches.fill + 1


@search(10)
@given(
    kind=st.sampled_from([CONVOLUTION, DEPTHWISE, PartKind.TRANSPOSE_CONVOLUTION, POOLING]),
    size=st.integers(1, 5),
    stride=st.integers(1, 2),
    output=st.tuples(st.integers(1, 40), st.integers(1, 40), st.integers(1, 40)),
    depth=st.integers(1, 40),
    cut=st.integers(1, 40),
    name=st.sampled_from(sorted(ACCELERATORS)),
)
def test_multiply_adds_and_written_bytes_add_up_over_stripes(
    kind: PartKind, size: int, stride: int, output: tuple[int, int, int], depth: int, cut: int, name: str
) -> None:
    whole = Shape(*output)
    channels = depth if kind in (CONVOLUTION, PartKind.TRANSPOSE_CONVOLUTION) else whole.channels
    kernel = Kernel(size, size, stride, stride)

    def needed(rows: int) -> Shape:
        return Shape((rows - 1) * stride + size, (whole.columns - 1) * stride + size, channels)

    graph = one_part(kind, (needed(whole.rows),), output, kernel=kernel)
    pricer = StripePricer(graph, system_for(name))
    region = system_for(name).constants.name
    places = StripePlaces(("sram",), "sram", region if graph.parts[0].constants else "")
    heights = [min(cut, whole.rows - start) for start in range(0, whole.rows, cut)]
    stripes = [pricer.price(0, whole._replace(rows=rows), (needed(rows),), places) for rows in heights]
    macs = size * size * whole.elements * (1 if kind in (DEPTHWISE, POOLING) else depth)
    assert sum(each.macs for each in stripes) == macs
    assert sum(each.written["sram"] for each in stripes) == whole.elements
    npu = system_for(name).accelerator
    for each in stripes:
        assert each.cycles >= each.written["sram"] / system_for(name).working.bandwidth
        assert kind is POOLING or each.cycles >= each.macs / npu.macs


def test_streamed_weights_are_read_again_for_each_block_of_rows_and_columns() -> None:
    layer = POINTWISE_112
    pricer = StripePricer(layer.graph(), system_for("u55-128"), BlockGoal.FETCHES)
    stripe = Shape(8, 112, 64)
    block = pricer.block(0, stripe)
    times = -(-stripe.rows // block.rows) * -(-stripe.columns // block.columns)
    found = price(pricer, layer, stripe, STREAMED)
    assert found.read["flash"] == 64 * (32 * times + SCALE_BYTES)
    assert found.cycles >= found.read["flash"]


def test_a_slow_region_of_constants_makes_a_stripe_slower_and_never_faster() -> None:
    pricer = StripePricer(POINTWISE_7.graph(), system_for("u55-128"))
    resident, streamed = price(pricer, POINTWISE_7), price(pricer, POINTWISE_7, None, STREAMED)
    assert streamed.cycles > resident.cycles
    assert streamed.cycles >= streamed.read["flash"]


def test_bytes_of_one_region_are_added_and_those_of_another_apart() -> None:
    pricer = StripePricer(SUM_14.graph(), system_for("u65-256"))
    shape = Shape(*SUM_14.input)
    together = pricer.price(0, shape, (shape, shape), StripePlaces(("sram", "sram"), "sram", ""))
    apart = pricer.price(0, shape, (shape, shape), StripePlaces(("sram", "dram"), "dram", ""))
    assert together.read == {"sram": 2 * shape.elements}
    assert together.written == {"sram": shape.elements}
    assert apart.read == {"sram": shape.elements, "dram": shape.elements}
    assert apart.written == {"dram": shape.elements}


def test_a_copy_costs_its_bytes_at_the_slower_port_and_a_latency() -> None:
    graph = one_part(COPY, ((8, 10, 16),), (8, 10, 16))
    pricer = StripePricer(graph, system_for("u65-256-high-end"))
    shape = Shape(8, 10, 16)
    found = pricer.price(0, shape, (shape,), StripePlaces(("dram",), "sram", ""))
    assert found == Price(-(-shape.elements * 4 // 15), 500, 0, {"dram": 1280}, {"sram": 1280})
    within = pricer.price(0, shape, (shape,), StripePlaces(("sram",), "sram", ""))
    assert within.cycles == 2 * 1280 // 16
    assert pricer.block(0, shape) == shape


def test_each_pass_costs_the_same_again() -> None:
    layer = Layer(ELEMENTWISE, (1, 1, 1000), (1, 1, 1000), Kernel(), Activation.NONE, "SOFTMAX")
    once = StripePricer(layer.graph(), system_for("u55-128"))
    graph = one_part(ELEMENTWISE, (layer.input,), layer.output, operation="SOFTMAX", passes=5)
    five = price(StripePricer(graph, system_for("u55-128")), layer)
    found = price(once, layer)
    assert abs(five.cycles - 5 * found.cycles) <= 5
    assert five.read == {"sram": 5 * found.read["sram"]}
    assert five.written == {"sram": 5 * found.written["sram"]}


def test_two_cores_are_faster_than_one() -> None:
    graph = POINTWISE_7.graph()
    one, two = (StripePricer(graph, system_for(name)) for name in ("u65-256", "u65-512"))
    assert price(two, POINTWISE_7).cycles < price(one, POINTWISE_7).cycles


def test_a_stripe_whose_input_is_all_padding_has_a_price() -> None:
    pricer = StripePricer(DEPTHWISE_112.graph(), system_for("u55-128"))
    found = pricer.price(0, Shape(1, 112, 32), (Shape(0, 112, 32),), STREAMED)
    assert found.cycles > 0
    assert found.read["sram"] == 0


def test_a_tensor_of_the_network_is_slower_to_move_than_one_in_bricks() -> None:
    arguments = (ELEMENTWISE, ((56, 56, 32), (56, 56, 32)), (56, 56, 32))
    shape, places = Shape(56, 56, 32), StripePlaces(("sram", "sram"), "sram", "")
    own, network = (
        StripePricer(one_part(*arguments, operation="MAXIMUM", of_network=each), system_for("u55-256")).price(
            0, shape, (shape, shape), places
        )
        for each in (False, True)
    )
    assert network.cycles > own.cycles
    assert (network.read, network.written) == (own.read, own.written)


def test_a_price_is_computed_once() -> None:
    pricer = StripePricer(DEPTHWISE_112.graph(), system_for("u55-128"))
    assert price(pricer, DEPTHWISE_112) is price(pricer, DEPTHWISE_112)


def test_an_unknown_region_is_refused() -> None:
    pricer = StripePricer(DEPTHWISE_112.graph(), system_for("u55-128"))
    with pytest.raises(ValueError, match="has no region 'dram'"):
        price(pricer, DEPTHWISE_112, None, StripePlaces(("dram",), "sram", "flash"))
