from __future__ import annotations

from nnhal_mlip.command.binary_listing import listing
from nnhal_mlip.command.compiling import CompiledNetwork
from nnhal_mlip.program.binary import read_binary


def test_a_binary_is_told_from_its_metadata_to_its_last_task(compiled_digits: CompiledNetwork) -> None:
    binary = read_binary(compiled_digits.binaries[0].compiled.binary)
    lines = list(listing(binary))
    assert "    magic: MRVL" in lines
    assert "  layer 1 tvmgen_mrvl_main_1 Conv2D: conv1 + relu1" in lines
    assert sum(line.startswith("  stage ") for line in lines) == len(binary.program.stages)
    tasks = sum(len(stage.tasks) for stage in binary.program.stages)
    assert sum(line.startswith("    tile ") for line in lines) == tasks
    assert any("max_pool" in line and "kernel 2x2, strides 2x2" in line for line in lines)
    assert any(line.endswith("range 0 to inf") for line in lines)
