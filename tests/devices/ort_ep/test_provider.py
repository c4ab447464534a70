"""Providers that come as libraries: which are loaded, and which are refused."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

from nnhal_devices.ort_ep.provider import open_provider


def test_a_library_that_is_not_there_is_named() -> None:
    with pytest.raises(ValueError, match=r"library /nowhere/libnpu\.so: No such file"):
        open_provider("/nowhere/libnpu.so", "", 0, {})


def test_a_package_that_is_not_installed_is_named() -> None:
    with pytest.raises(ValueError, match="library 'no_such_npu' is neither a file nor a Python package"):
        open_provider("no_such_npu", "", 0, {})


@pytest.mark.parametrize("function", ["get_library_path", "library_path"])
def test_a_package_says_where_its_library_is(function: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "some_npu.py").write_text(f"def {function}():\n    return '/nowhere/libnpu.so'\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "some_npu", raising=False)
    importlib.invalidate_caches()
    with pytest.raises(ValueError, match=r"library /nowhere/libnpu\.so: No such file"):
        open_provider("some_npu", "", 0, {})


def test_a_package_without_a_library_is_refused() -> None:
    with pytest.raises(ValueError, match="package json does not say where its library is"):
        open_provider("json", "", 0, {})


def test_what_is_no_library_is_refused_in_onnx_runtimes_words(tmp_path: Path) -> None:
    path = tmp_path / "libnpu.so"
    path.write_bytes(b"no library")
    with pytest.raises(ValueError, match=f"ONNX Runtime does not load {path}: "):
        open_provider(str(path), "", 0, {})


def test_nnhals_own_provider_is_not_loaded(tmp_path: Path) -> None:
    path = tmp_path / "libnpu.so"
    path.write_bytes(b"\x7fELF NnhalExecutionProvider\0")
    with pytest.raises(ValueError, match="has NnhalExecutionProvider, whose models would come back to this device"):
        open_provider(str(path), "", 0, {})
