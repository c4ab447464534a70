from __future__ import annotations

import pytest

from nnhal_devices.dynamic.naming import BackendFileKind, BackendName, looks_meant, parse

VALID = {
    "Arm_GpuAcc_backend.so": "Arm_GpuAcc_backend",
    "Arm_GpuAcc_backend.so.1": "Arm_GpuAcc_backend",
    "Arm_GpuAcc_backend.so.1.2": "Arm_GpuAcc_backend",
    "Arm_GpuAcc_backend.so.1.2.3": "Arm_GpuAcc_backend",
    "Arm_GpuAcc_backend.so.10.1.27": "Arm_GpuAcc_backend",
    "Arm_GpuAcc_backend.so.0.0.0.0.0": "Arm_GpuAcc_backend",
    "Arm123_GpuAcc_backend.so": "Arm123_GpuAcc_backend",
    "Arm_GpuAcc456_backend.so": "Arm_GpuAcc456_backend",
    "1_2_backend.so.3": "1_2_backend",
    "a_backend_backend.so": "a_backend_backend",
    "Arm_GpuAcc_backend.py": "Arm_GpuAcc_backend",
    "Arm_GpuAcc_backend.py.1": "Arm_GpuAcc_backend",
    "Arm_GpuAcc_backend.py.10.1.27": "Arm_GpuAcc_backend",
}
MEANT_AND_INVALID = [
    "Arm_GpuAcc_backend.so.",
    "Arm_GpuAcc_backend.so.10.1.33.",
    "Arm_GpuAcc_backend.so.3.4..5",
    "Arm_GpuAcc_backend.so..1",
    "Arm_GpuAcc_backend.so.1,1.1",
    "Arm_GpuAcc_backend.so.1a",
    "Arm_GpuAcc_backend.so.v1",
    "Arm_GpuAcc_backend.so1",
    "Arm_GpuAcc_backend.so\n",
    "Arm_GpuAcc_backend.so.\N{ARABIC-INDIC DIGIT ONE}",
    "Arm_GpuAcc_backend.py~",
    "Arm_GpuAcc_backend.pyc",
    "Arm_GpuAcc_backend.py.so",
    "Arm_GpuAcc_backend.SO",
    "Arm_GpuAcc_backend",
    "Arm_GpuAcc_backend.",
    "Arm_GpuAcc_backend_v1.2.so",
    "Arm$Co_GpuAcc_backend.so",
    "Arm-Co_GpuAcc_backend.so",
    "Ärm_GpuAcc_backend.so",
    "Arm_Gpu.Acc_backend.so",
    "Arm_Gpu_Acc_backend.so",
    "libArm_Gpu Acc_backend.so",
    "GpuAcc_backend.so",
    "_GpuAcc_backend.so",
    "Arm__backend.so",
    "__backend.so",
    "_backend.so",
    ".Arm_GpuAcc_backend.so.swp",
]
NOT_MEANT = [
    "Arm_GpuAcc.so",
    "__.so",
    "Arm_GpuAcc_Backend.so",
    "backend.so",
    "libm.so.6",
    "README.md",
    "__pycache__",
    "",
]


@pytest.mark.parametrize("file_name", VALID)
def test_a_valid_name_says_module_and_kind(file_name: str) -> None:
    kind = BackendFileKind.SOURCE if ".py" in file_name else BackendFileKind.EXTENSION
    assert parse(file_name) == BackendName(VALID[file_name], kind)


@pytest.mark.parametrize("file_name", MEANT_AND_INVALID)
def test_a_name_that_nearly_keeps_the_rule_is_none_but_looks_meant(file_name: str) -> None:
    assert parse(file_name) is None
    assert looks_meant(file_name)


@pytest.mark.parametrize("file_name", NOT_MEANT)
def test_another_name_is_none_and_does_not_look_meant(file_name: str) -> None:
    assert parse(file_name) is None
    assert not looks_meant(file_name)
