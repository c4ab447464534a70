"""The example of docs/doors.md."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from nnhal_tools.up import Testbed
from tests.native.ndk.support import framework_at

pytestmark = pytest.mark.sdk

PAGE = Path(__file__).parents[3] / "docs/doors.md"


def test_the_example_in_the_documentation_prints_what_it_says(
    testbed: Testbed, capsys: pytest.CaptureFixture[str]
) -> None:
    text = PAGE.read_text()
    (source,) = re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    (printed,) = re.findall(r"^It prints `(.*)`\.$", text, re.MULTILINE)
    with framework_at(testbed.framework):
        exec(source, {})
    assert capsys.readouterr().out.strip().splitlines()[-1] == printed.strip()
