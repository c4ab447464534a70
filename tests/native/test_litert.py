"""Compiled models of LiteRT run on the devices of a framework, through libLiteRtGpuAccelerator.so."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

from nnhal_tools.up import Testbed
from tests.support.tflite_files import TfliteFile, floats

pytestmark = [pytest.mark.sdk, pytest.mark.slow, pytest.mark.timeout(600)]  # the first one builds the library

PROGRAM = """
    import sys
    import numpy
    from ai_edge_litert.compiled_model import CompiledModel
    from ai_edge_litert.environment import Environment
    from ai_edge_litert.hardware_accelerator import HardwareAccelerator

    environment = Environment.create(runtime_path=sys.argv[2])
    model = CompiledModel.from_file(
        sys.argv[1], hardware_accel=HardwareAccelerator.GPU | HardwareAccelerator.CPU, environment=environment
    )
    inputs, outputs = model.create_input_buffers(0), model.create_output_buffers(0)
    inputs[0].write(numpy.arange(6, dtype=numpy.float32))
    model.run_by_index(0, inputs, outputs)
    print(model.is_fully_accelerated(), outputs[0].read(6, numpy.float32).tolist())
"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A model whose output is -(x + 1)."""
    file, path = TfliteFile(), tmp_path / "model.tflite"
    x, one = file.input("x", floats(6)), file.constant(np.ones(1, np.float32))
    (more,) = file.operator("ADD", [x, one], {"more": floats(6)}, ("AddOptions", {}))
    path.write_bytes(file.build(*file.operator("NEG", [more], {"y": floats(6)})))
    return path


def run(model: Path, libraries: Path, framework: Path | str, options: str = "") -> subprocess.CompletedProcess[str]:
    settings = {"NNHAL_FRAMEWORK": str(framework), "NNHAL_TFLITE_OPTIONS": options, "NNHAL_TFLITE_LOG": "1"}
    command = [sys.executable, "-c", textwrap.dedent(PROGRAM), str(model), str(libraries)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=os.environ | settings)


def test_a_compiled_model_runs_as_a_whole(libraries: Path, testbed: Testbed, model: Path) -> None:
    ended = run(model, libraries, testbed.framework, "devices=cpu_acc")
    assert ended.stdout.endswith("True [-1.0, -2.0, -3.0, -4.0, -5.0, -6.0]\n"), ended.stdout + ended.stderr
    assert "nnhal: takes 2 of 2 nodes in 1 parts, on cpu_acc" in ended.stderr


def test_what_nnhal_is_not_to_take_runs_in_the_program(libraries: Path, testbed: Testbed, model: Path) -> None:
    ended = run(model, libraries, testbed.framework, "ops=NEG")
    assert ended.stdout.endswith("[-1.0, -2.0, -3.0, -4.0, -5.0, -6.0]\n"), ended.stdout + ended.stderr
    assert "nnhal: takes 1 of 2 nodes in 1 parts" in ended.stderr


@pytest.mark.parametrize(
    ("framework", "options", "words"),
    [("/nowhere", "", "/nowhere/link.sock"), ("", "devises=cpu_acc", "unknown option 'devises'")],
)
def test_what_cannot_be_had_is_an_error(
    libraries: Path, testbed: Testbed, model: Path, framework: str, options: str, words: str
) -> None:
    ended = run(model, libraries, framework or testbed.framework, options)
    assert ended.returncode == 1
    assert words in ended.stderr
