"""Element types of a package that may be missing."""

from __future__ import annotations

import subprocess
import sys

import pytest

from nnhal import small_types

WITHOUT = """
import sys
sys.modules["ml_dtypes"] = None
from nnhal.extensions.onnx import ELEMENT_TYPES, element_type_named
from nnhal.inference.datatypes import DATATYPES, datatype
from nnhal.small_types import MissingTypeError
assert "BF16" not in DATATYPES and 16 not in ELEMENT_TYPES and 10 in ELEMENT_TYPES
for ask in (lambda: datatype("BF16"), lambda: element_type_named("bfloat16")):
    try:
        ask()
    except MissingTypeError as error:
        print(error)
"""


def test_an_element_type_is_found_by_its_name() -> None:
    assert small_types.require("bfloat16").name == "bfloat16"


def test_without_the_package_there_is_no_bfloat16_and_the_error_names_the_package() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True, check=False)
    said = "bfloat16 needs the package ml_dtypes: pip install 'nnhal[bfloat16]'"
    assert (done.stdout.splitlines(), done.stderr) == ([said, said], "")


@pytest.mark.parametrize("name", ["bfloat16", "int4", "float8_e4m3fn"])
def test_the_types_are_those_of_ml_dtypes(name: str) -> None:
    found = small_types.find(name)
    assert found is not None and found.itemsize <= 2
