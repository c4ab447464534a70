"""Subgraphs, compiled and run: values, memory, promises about time."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from nnhal_mlip.compiler.compiler_options import MlipCompilerOptions
from nnhal_mlip.compiler.errors import MisfitOfTilesError, MlipCompileError
from nnhal_mlip.flow.graph.flow_graph import FlowGraph
from nnhal_mlip.program.binary import read_binary
from nnhal_mlip.program.program import OCM_BYTES, TaskKind
from tests.support.flow_graphs import GraphOf
from tests.support.flow_networks import inception_block, mlp, mobilenet_v1, resnet18, ssd_head
from tests.support.mlip_compiling import GraphInFiles

NETWORKS: dict[str, Callable[[], FlowGraph]] = {
    "ResNet-18": lambda: resnet18(48, 10),
    "SSD heads": ssd_head,
    "Inception": inception_block,
    "MLP": mlp,
    "MobileNet": lambda: mobilenet_v1(64, 10, width=0.5),
}

LITTLE_MEMORY = [
    ("SSD heads", 8, 8192),
    ("Inception", 4, 4096),
    ("ResNet-18", 4, 131072),
    ("MobileNet", 2, 32768),
]


@pytest.fixture(scope="module")
def networks() -> dict[str, GraphInFiles]:
    return {name: GraphInFiles(make()) for name, make in NETWORKS.items()}


@pytest.mark.slow
@pytest.mark.parametrize(("tiles", "quantize"), [(1, "fp16"), (2, "int8"), (4, "fp16"), (8, "int8")])
@pytest.mark.parametrize("network", NETWORKS)
def test_networks_compute_what_the_reference_does(
    networks: dict[str, GraphInFiles], network: str, tiles: int, quantize: str
) -> None:
    given = networks[network]
    for number in range(len(given.files)):
        given.check(given.compile(number, quantize=quantize, num_tiles=tiles), quantize, number)


@pytest.mark.slow
@pytest.mark.parametrize(("network", "tiles", "size"), LITTLE_MEMORY)
def test_networks_run_in_little_memory(networks: dict[str, GraphInFiles], network: str, tiles: int, size: int) -> None:
    given = networks[network]
    for quantize in ("fp16", "int8"):
        compiled = given.compile(quantize=quantize, num_tiles=tiles, page_bytes=1024, ocm_size=size)
        given.check(compiled, quantize)
        assert any(layer.stripes > 1 for layer in compiled.program.layers)
        assert all(held.stop <= size for held in compiled.memory)


@pytest.mark.slow
def test_what_does_not_stay_in_the_tiles_passes_through_ddr(networks: dict[str, GraphInFiles]) -> None:
    given = networks["ResNet-18"]
    compiled = given.compile(num_tiles=1, ocm_size=65536)
    given.check(compiled, "fp16")
    assert sum(layer.spills for layer in compiled.program.layers) > 5
    assert compiled.program.scratch_bytes > 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("network", "size"),
    [
        ("SSD heads", 65536),
        ("Inception", 65536),
        ("MLP", 65536),
        ("MobileNet", OCM_BYTES),
        ("ResNet-18", OCM_BYTES),
    ],
)
def test_more_tiles_and_int8_are_never_slower(networks: dict[str, GraphInFiles], network: str, size: int) -> None:
    given = networks[network]
    cycles = {
        quantize: [given.compile(quantize=quantize, num_tiles=tiles, ocm_size=size).cycles for tiles in (1, 2, 4, 8)]
        for quantize in ("fp16", "int8")
    }
    assert cycles["fp16"] == sorted(cycles["fp16"], reverse=True)
    assert cycles["int8"] == sorted(cycles["int8"], reverse=True)
    assert all(fast <= slow for fast, slow in zip(cycles["int8"], cycles["fp16"], strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("network", ["SSD heads", "Inception", "MLP"])
@pytest.mark.parametrize("quantize", ["fp16", "int8"])
def test_pinned_weights_are_loaded_once_and_never_slower(
    networks: dict[str, GraphInFiles], network: str, quantize: str
) -> None:
    given = networks[network]
    for tiles in (1, 8):
        pinned = given.compile(quantize=quantize, num_tiles=tiles, wb_pin_ocm=True)
        given.check(pinned, quantize)
        assert pinned.cycles <= given.compile(quantize=quantize, num_tiles=tiles).cycles
        held = [one for one in pinned.memory if one.pinned]
        assert held and max(one.stop for one in held) <= pinned.program.ocm_weights_bytes
        assert all(one.start >= pinned.program.ocm_scratch_floor for one in pinned.memory if not one.pinned)


@pytest.mark.slow
def test_two_compilations_give_the_same_bytes(networks: dict[str, GraphInFiles]) -> None:
    again = GraphInFiles(NETWORKS["Inception"]())
    for quantize in ("fp16", "int8"):
        assert networks["Inception"].compile(quantize=quantize).binary == again.compile(quantize=quantize).binary


def test_the_binary_holds_the_program(networks: dict[str, GraphInFiles]) -> None:
    compiled = networks["MLP"].compile()
    assert read_binary(compiled.binary).program == compiled.program


@pytest.mark.slow
def test_what_does_not_fit_says_what_would_do() -> None:
    g = GraphOf()
    given = GraphInFiles(g.build(g.conv(g.input(1, 64, 20, 600), 64, 3, name="wide")))
    with pytest.raises(MisfitOfTilesError, match="wide: takes") as caught:
        given.compile(num_tiles=1, ocm_size=65536)
    error = caught.value
    assert error.available == 65536 < error.wanted
    pages = int(error.remedies[0].split()[0])
    given.check(given.compile(num_tiles=1, ocm_size=pages * 16384), "fp16")
    with pytest.raises(MisfitOfTilesError):
        given.compile(num_tiles=1, ocm_size=(pages - 1) * 16384)


@pytest.mark.slow
def test_weights_that_cannot_be_pinned_are_refused() -> None:
    g = GraphOf()
    given = GraphInFiles(g.build(g.dense(g.dense(g.input(1, 1024), 1024), 1024)))
    given.compile(num_tiles=1)
    with pytest.raises(MisfitOfTilesError, match="not pinned"):
        given.compile(num_tiles=1, wb_pin_ocm=True)
    given.check(given.compile(num_tiles=8, wb_pin_ocm=True), "fp16")


def test_a_concatenation_moves_nothing_if_its_parts_are_computed() -> None:
    g = GraphOf("NHWC")
    data = g.input(1, 8, 8, 4)
    given = GraphInFiles(g.build(g.concat(g.conv(data, 6, 3, pad=1), g.conv(data, 10, 1), name="both")))
    compiled = given.compile()
    assert all(task.kind is TaskKind.CONVOLUTION for stage in compiled.program.stages for task in stage.tasks)
    assert [layer.stripes for layer in compiled.program.layers if layer.kind == "Concat"] == [0]


def test_the_memory_map_has_no_overlap(networks: dict[str, GraphInFiles]) -> None:
    held = networks["Inception"].compile(ocm_size=65536).memory
    for number, one in enumerate(held):
        for other in held[:number]:
            if one.tile == other.tile and one.first_stage <= other.last_stage and other.first_stage <= one.last_stage:
                assert one.stop <= other.start or other.stop <= one.start


def test_reports_have_the_users_names(networks: dict[str, GraphInFiles]) -> None:
    compiled = networks["Inception"].compile()
    names = {name for layer in compiled.program.layers for name in layer.user_names}
    assert "joined" in names
    assert any("joined" in one.what for one in compiled.memory)


def test_memory_from_a_base_is_kept_to() -> None:
    given = GraphInFiles(mlp())
    for pinned in (False, True):
        compiled = given.compile(ocm_base=131072, ocm_size=262144, wb_pin_ocm=pinned)
        given.check(compiled, "fp16")
        assert all(one.start >= 131072 and one.stop <= 393216 for one in compiled.memory)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"num_tiles": 3}, "num_tiles is 3, expected one of 1, 2, 4, 8"),
        ({"page_bytes": 1000}, "page_bytes is 1000"),
        ({"ocm_size": 1000}, "ocm_size is 1000, expected whole pages"),
        ({"ocm_base": 16384}, "bytes from 16384 of a tile's memory"),
        ({"quantize": "int4"}, "quantize is 'int4', expected fp16 or int8"),
    ],
)
def test_options_that_make_no_sense_are_refused(wrong: dict[str, int], message: str) -> None:
    with pytest.raises(MlipCompileError, match=message):
        MlipCompilerOptions(**wrong)  # type: ignore[arg-type]
