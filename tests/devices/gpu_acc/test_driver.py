from __future__ import annotations

from nnhal.operations.operand_types import F16, F32
from nnhal.types import DeviceType, NumberOfCacheFiles, OperandType
from nnhal_devices.backend import MemoryKind
from nnhal_devices.driver import DriverOptions
from nnhal_devices.gpu_acc.driver import TENSOR_HANDLES, GpuAcc
from nnhal_devices.registry import create_driver


def test_it_is_a_gpu_without_extensions() -> None:
    driver = create_driver("gpu_acc", DriverOptions())
    assert isinstance(driver, GpuAcc)
    assert driver.type == DeviceType.GPU
    assert driver.extensions == ()
    assert driver.modelled_timing
    assert driver.number_of_cache_files == NumberOfCacheFiles(1, 1)
    assert driver.backend.realisation


def test_it_says_figures_for_floats_only() -> None:
    figures = {entry.type: entry.info for entry in GpuAcc(DriverOptions()).capabilities.operand_performance}
    assert set(figures) == {F32, F16, OperandType.FLOAT32, OperandType.FLOAT16}
    assert figures[F16].exec_time < figures[F32].exec_time < 1
    assert figures[F32].power_usage < 1


def test_it_would_rather_import_than_copy() -> None:
    assert create_driver("gpu_acc", DriverOptions()).backend.tensor_handles == TENSOR_HANDLES
    imported, copied = TENSOR_HANDLES
    assert imported.id == "gpu_acc/import"
    assert imported.imports == imported.exports == frozenset(MemoryKind)
    assert not imported.maps
    assert imported.fallback_import_memory_required
    assert copied.id == "gpu_acc/buffer"
    assert copied.imports == copied.exports == frozenset()
    assert copied.maps
    assert {handle.alignment for handle in TENSOR_HANDLES} == {128}
