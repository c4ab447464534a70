from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nnhal_mlip.command.compiling import CompiledNetwork
from nnhal_mlip.command.pair import compile_pair, output_bytes, run_binary
from nnhal_mlip.compiler.compiler import CompiledSubgraph
from nnhal_mlip.compiler.errors import MlipCompileError
from nnhal_mlip.program.program import TensorType
from nnhal_mlip.timing.profile import read_profile

PROFILE = read_profile()
STEM = "tvmgen_mrvl_main_0"


Compile = Callable[..., CompiledSubgraph]


@pytest.fixture(name="compile_")
def compile_of(compiled_digits: CompiledNetwork, tmp_path: Path) -> Compile:
    """Compile the files of a compiled network, for two tiles unless told otherwise."""
    compiled_digits.write(tmp_path)
    nodes, constants = (tmp_path / f"{STEM}-{kind}.json" for kind in ("nodes", "consts"))
    return lambda num_tiles=2, **options: compile_pair(nodes, constants, PROFILE, num_tiles=num_tiles, **options)


def test_a_pair_gives_the_bytes_that_the_network_was_compiled_into(
    compile_: Compile, compiled_digits: CompiledNetwork
) -> None:
    assert compile_().binary == compiled_digits.binaries[0].compiled.binary


def test_the_memory_that_may_be_used_is_bounded(compile_: Compile) -> None:
    found = compile_(ocm_base="0x40000", ocm_size="0x80000")
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
def test_what_is_wrong_is_said(compile_: Compile, change: dict[str, Any], message: str) -> None:
    with pytest.raises((ValueError, MlipCompileError), match=message):
        compile_(**change)


def test_int8_takes_the_ranges_of_a_calibration(compile_: Compile, tmp_path: Path) -> None:
    ranges = tmp_path / "calibration.json"
    values = ["image", "relu1:0", "pool1:0", "relu2:0", "pool2:0", "classifier:0"]
    ranges.write_text('{"ranges": {' + ", ".join(f'"{value}": [-2, 2]' for value in values) + "}}")
    found = compile_(quantize="int8", ranges=ranges)
    assert found.program.type is TensorType.INT8
    ranges.write_text("[]")
    with pytest.raises(ValueError, match=r"expected a calibration\.json"):
        compile_(quantize="int8", ranges=ranges)


def test_a_binary_runs_on_files_of_its_inputs(compiled_digits: CompiledNetwork, tmp_path: Path) -> None:
    compiled_digits.write(tmp_path)
    binary = tmp_path / f"{STEM}.bin"
    image = np.random.default_rng(3).uniform(-2, 2, (1, 1, 28, 28)).astype(np.float16)
    files = [tmp_path / name for name in ("wide.bin", "own.bin", "named.npy")]
    files[0].write_bytes(image.astype(np.float32).tobytes())
    files[1].write_bytes(image.tobytes())
    np.save(files[2], image.astype(np.float32))
    found = [output_bytes(run_binary(binary, [file], PROFILE)[1]) for file in files]
    assert found[0] == found[1] == found[2]
    assert np.frombuffer(found[0], np.float32).shape == (10,)
    with pytest.raises(ValueError, match=r"got 0 files of inputs, expected 1, one each of image"):
        run_binary(binary, [], PROFILE)
    files[0].write_bytes(b"12345")
    with pytest.raises(ValueError, match=r"got 5 bytes for input image, expected 784 numbers"):
        run_binary(binary, files[:1], PROFILE)
