"""The flow's steps as functions: they make the files and the bytes that the commands make."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nnhal_mlip.command import mrvl
from nnhal_mlip.command.compiling import CompiledNetwork
from nnhal_mlip.compiler.compiler import CompiledSubgraph
from nnhal_mlip.compiler.errors import MlipCompileError
from nnhal_mlip.program.program import TensorType

STEM = "tvmgen_mrvl_main_0"


@pytest.fixture
def folder(compiled_digits: CompiledNetwork, tmp_path: Path) -> Path:
    """The files of a compiled network."""
    compiled_digits.write(tmp_path)
    return tmp_path


@pytest.fixture
def build(folder: Path) -> Callable[..., CompiledSubgraph]:
    """Compile the pair of files, for two tiles unless another number is given."""
    pair = [folder / f"{STEM}-{kind}.json" for kind in ("nodes", "consts")]
    return lambda num_tiles=2, **options: mrvl.build(*pair, num_tiles=num_tiles, **options)


def test_the_steps_make_what_the_command_makes(digits: Path, folder: Path) -> None:
    partition = mrvl.partition_for_mrvl(digits, mattr="-num_tiles=2")
    (pair,) = mrvl.dump_json_meta_data_files(partition, folder / "by_steps")
    for path in pair:
        assert path.read_bytes() == (folder / path.name).read_bytes()
    binary = folder / f"{STEM}.bin"
    assert mrvl.build(*pair, num_tiles=2).binary == binary.read_bytes()
    image = folder / "image.npy"
    np.save(image, np.ones((1, 1, 28, 28), np.float32))
    (scores,) = mrvl.run(binary, [image])
    assert scores.shape == (1, 10) and scores.dtype == np.float32 and np.ptp(scores) > 0


def test_a_partition_takes_the_options_of_the_command(digits: Path) -> None:
    with pytest.raises(ValueError, match="option"):
        mrvl.partition_for_mrvl(digits, mattr="-num_tiles=3")
    kept = mrvl.partition_for_mrvl(digits, public=True, to_host=["conv2"])
    assert all("conv2" not in kernel.user_names for subgraph in kept.subgraphs for kernel in subgraph.kernels)


def test_the_memory_that_may_be_used_is_bounded(build: Callable[..., CompiledSubgraph]) -> None:
    found = build(ocm_base="0x40000", ocm_size=0x80000)
    assert all(each.start >= 0x40000 and each.stop <= 0xC0000 for each in found.memory)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dram_addr_relocatable": 0}, "option dram_addr_relocatable: got 0, expected 1"),
        ({"ocm_size": "much"}, "option ocm_size: got 'much', expected a number such as 0x100000"),
        ({"ocm_base": "0x10"}, "ocm_base is 16, expected whole pages"),
        ({"ocm_size": "0x0"}, "0 bytes from 0 of a tile's memory"),
        ({"arch": "NPU"}, "option arch: got 'NPU'"),
        ({"num_tiles": 3}, "option num_tiles: got '3'"),
        ({"quantize": "int8"}, "has no range, expected one from a calibration"),
    ],
)
def test_what_is_wrong_is_said(build: Callable[..., CompiledSubgraph], change: dict[str, Any], message: str) -> None:
    with pytest.raises((ValueError, MlipCompileError), match=message):
        build(**change)


def test_int8_takes_the_ranges_of_a_calibration(build: Callable[..., CompiledSubgraph], tmp_path: Path) -> None:
    ranges = tmp_path / "calibration.json"
    values = ["image", "relu1:0", "pool1:0", "relu2:0", "pool2:0", "classifier:0"]
    ranges.write_text('{"ranges": {' + ", ".join(f'"{value}": [-2, 2]' for value in values) + "}}")
    found = build(quantize="int8", ranges=ranges)
    assert found.program.type is TensorType.INT8
    ranges.write_text("[]")
    with pytest.raises(ValueError, match=r"expected a calibration\.json"):
        build(quantize="int8", ranges=ranges)


def test_a_binary_runs_on_files_of_its_inputs(folder: Path) -> None:
    binary = folder / f"{STEM}.bin"
    image = np.random.default_rng(3).uniform(-2, 2, (1, 1, 28, 28)).astype(np.float16)
    files = [folder / name for name in ("wide.bin", "own.bin", "named.npy")]
    files[0].write_bytes(image.astype(np.float32).tobytes())
    files[1].write_bytes(image.tobytes())
    np.save(files[2], image.astype(np.float32))
    found = [mrvl.output_bytes(mrvl.run_binary(binary, [file])[1]) for file in files]
    assert found[0] == found[1] == found[2]
    assert np.frombuffer(found[0], np.float32).shape == (10,)
    with pytest.raises(ValueError, match=r"got 0 files of inputs, expected 1, one each of image"):
        mrvl.run_binary(binary, [])
    files[0].write_bytes(b"12345")
    with pytest.raises(ValueError, match=r"got 5 bytes for input image, expected 784 numbers"):
        mrvl.run_binary(binary, files[:1])
