from __future__ import annotations

from pathlib import Path

import onnxruntime

from nnhal_devices.gpu_acc.runtime import CUDA, Runtime, choose, gpu_name, opens, this_machine

CPU = "CPUExecutionProvider"


def test_without_cuda_it_is_emulated() -> None:
    expected = Runtime((CPU,), "emulated on this machine's CPU")
    assert choose(["AzureExecutionProvider", CPU], lambda _: True) == expected


def test_cuda_is_taken_where_it_opens() -> None:
    chosen = choose([CUDA, CPU], lambda provider: provider == CUDA)
    assert chosen.providers == (CUDA, CPU)
    assert chosen.realisation.startswith("CUDA: ")


def test_cuda_that_is_built_in_and_has_no_gpu_is_not_taken() -> None:
    assert choose([CUDA, CPU], lambda _: False).realisation == "emulated on this machine's CPU"


def test_a_provider_opens_where_sessions_run_on_it() -> None:
    assert opens(CPU)


def test_the_gpu_has_the_name_that_its_driver_says(tmp_path: Path) -> None:
    assert gpu_name(tmp_path) == "device 0"
    directory = tmp_path / "0000:01:00.0"
    directory.mkdir()
    (directory / "information").write_text("Model: \t\t Some GPU 24\nIRQ:   \t\t 150\n")
    assert gpu_name(tmp_path) == "Some GPU 24"


def test_this_machine_is_said_to_be_what_it_is() -> None:
    assert this_machine().realisation.startswith("CUDA: ") == (CUDA in onnxruntime.get_available_providers())
