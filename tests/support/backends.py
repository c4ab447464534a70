"""Backend files for tests: the device of docs/write_a_device.md, generated sources, a compiled extension module."""

from __future__ import annotations

import re
import shutil
import subprocess
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from structlog.testing import capture_logs

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/write_a_device.md"
SAMPLE = ROOT / "examples/backend_python/Acme_Sample_backend.py"
EXTENSION_ID = "Native"
EXTENSION_VERSION = "acme-native-1.0"
_EXTENSION = """
#define PY_SSIZE_T_CLEAN
#include <Python.h>

static PyObject *create_backend(PyObject *self, PyObject *options)
{
    PyObject *driver = NULL, *version = PyUnicode_FromString("acme-native-1.0");
    PyObject *module = PyImport_ImportModule("nnhal_devices.cpu_ref.driver");
    if (module != NULL && version != NULL) {
        driver = PyObject_CallMethod(module, "CpuRef", "(O)", options);
        if (driver != NULL && PyObject_SetAttrString(driver, "version", version) < 0)
            Py_CLEAR(driver);
    }
    Py_XDECREF(module);
    Py_XDECREF(version);
    return driver;
}

static PyMethodDef functions[] = {{"create_backend", create_backend, METH_O, NULL}, {NULL, NULL, 0, NULL}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "Acme_Native_backend", NULL, 0, functions};

PyMODINIT_FUNC PyInit_Acme_Native_backend(void)
{
    PyObject *module = PyModule_Create(&definition), *version = Py_BuildValue("(ii)", 1, 0);
    if (module == NULL || version == NULL)
        return NULL;
    if (PyModule_AddStringConstant(module, "BACKEND_ID", "Native") < 0)
        return NULL;
    if (PyModule_AddObject(module, "API_VERSION", version) < 0)
        return NULL;
    return module;
}
"""


class Warned(NamedTuple):
    """A logged warning: the name of the file or directory, and the reason."""

    name: str
    reason: str


def example() -> str:
    """Return the source of the device in docs/write_a_device.md that computes."""
    (found,) = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    return str(found)


def write_backend(path: Path, name: object, version: object = (1, 0), factory: str = "CpuRef") -> Path:
    """Write a backend file in Python; ``factory`` is an expression."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        "from nnhal_devices.cpu_ref.driver import CpuRef\n"
        f"BACKEND_ID = {name!r}\nAPI_VERSION = {version!r}\ncreate_backend = {factory}\n"
    )
    return path


def build_extension(path: Path) -> Path:
    """Compile an extension module called Acme_Native_backend. Skips the test if it cannot be built."""
    compiler, include = shutil.which("cc"), Path(sysconfig.get_path("include"))
    if compiler is None:
        pytest.skip("there is no C compiler called cc")
    if not (include / "Python.h").exists():
        pytest.skip(f"CPython's headers are not in {include}")
    words = [compiler, "-shared", "-fPIC", f"-I{include}", "-x", "c", "-", "-o", str(path)]
    subprocess.run(words, input=_EXTENSION, text=True, check=True)
    return path


@contextmanager
def warnings_logged() -> Iterator[list[Warned]]:
    """Collect warnings about files and directories; the list is filled when the context ends."""
    warned: list[Warned] = []
    with capture_logs() as events:
        yield warned
    for event in events:
        if event["log_level"] == "warning":
            place = event["file"] if "file" in event else event["directory"]
            warned.append(Warned(Path(place).name, event["reason"]))
