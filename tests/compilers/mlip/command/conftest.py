"""Networks that the tests of this folder share, compiled once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nnhal_mlip.command.compiling import CompilationRequest, CompiledNetwork, compile_network, target_options
from nnhal_mlip.timing.profile import read_profile
from tests.support.mlip_onnx import write_digits, write_two_parts


@pytest.fixture(scope="package")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network of two convolutions, with a softmax that stays on the host."""
    return write_digits(tmp_path_factory.mktemp("models") / "digits.onnx")


@pytest.fixture(scope="package")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("samples") / "images.npz"
    np.savez(path, image=np.random.default_rng(7).uniform(-2, 2, (3, 1, 28, 28)).astype(np.float32))
    return path


@pytest.fixture(scope="package")
def compiled_digits(digits: Path) -> CompiledNetwork:
    """The network, compiled for two tiles in fp16."""
    target = target_options("", "cn10ka", 2, None, False)
    return compile_network(CompilationRequest(digits, target, read_profile()))


@pytest.fixture(scope="package")
def compiled_parts(tmp_path_factory: pytest.TempPathFactory) -> CompiledNetwork:
    """A network of two binaries with an operator of the host between them."""
    model = write_two_parts(tmp_path_factory.mktemp("parts") / "two.onnx")
    return compile_network(CompilationRequest(model, target_options("", "cn10ka", 2, None, False), read_profile()))
