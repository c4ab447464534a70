"""The flow's steps as functions: they make the files and the bytes that the commands make."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nnhal_mlip.command import mrvl
from nnhal_mlip.command.compiling import CompilationRequest, compile_network, target_options
from nnhal_mlip.timing.profile import read_profile
from tests.support.mlip_onnx import write_digits


def test_the_steps_make_what_the_command_makes(tmp_path: Path) -> None:
    model = write_digits(tmp_path / "digits.onnx")
    request = CompilationRequest(model, target_options("", "cn10ka", 2, None, False), read_profile())
    compile_network(request).write(tmp_path / "by_command")
    partition = mrvl.partition_for_mrvl(model, mattr="-num_tiles=2")
    ((nodes, constants),) = mrvl.dump_json_meta_data_files(partition, tmp_path / "by_steps")
    for path in (nodes, constants):
        assert path.read_bytes() == (tmp_path / "by_command" / path.name).read_bytes()
    binary = tmp_path / "digits.bin"
    binary.write_bytes(mrvl.build(nodes, constants, num_tiles=2))
    assert binary.read_bytes() == (tmp_path / "by_command" / "tvmgen_mrvl_main_0.bin").read_bytes()
    image = tmp_path / "image.npy"
    np.save(image, np.ones((1, 1, 28, 28), np.float32))
    (scores,) = mrvl.run(binary, [image])
    assert scores.shape == (1, 10) and scores.dtype == np.float32 and np.ptp(scores) > 0


def test_a_step_says_what_is_wrong(tmp_path: Path) -> None:
    model = write_digits(tmp_path / "digits.onnx")
    with pytest.raises(ValueError, match="option"):
        mrvl.partition_for_mrvl(model, mattr="-num_tiles=3")
    kept = mrvl.partition_for_mrvl(model, public=True, to_host=["conv2"])
    assert all("conv2" not in kernel.user_names for subgraph in kept.subgraphs for kernel in subgraph.kernels)
