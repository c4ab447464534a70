"""The example that generates tokens, as a user runs it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from examples.decode import FIRST, STATES, VOCABULARY, OnnxRuntime, generate, gpt

_ROOT = Path(__file__).parents[2]


def decode(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "examples/decode.py", *words]
    return subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, timeout=240)


def test_a_cache_of_fixed_length_yields_the_tokens_of_one_that_grows() -> None:
    count = 12
    found, _ = generate({"fixed": OnnxRuntime(gpt(count)).step, "grown": OnnxRuntime(gpt(None)).step}, count)
    assert found["fixed"] == found["grown"]
    assert len({FIRST, *found["fixed"]}) > count // 2, "the tokens tell a right model from a wrong one"


def test_a_cache_that_is_full_forgets_the_oldest_token() -> None:
    alone = OnnxRuntime(gpt(2))
    for position in range(5):
        kept = alone.caches
        assert alone.step(7, position).shape == (1, VOCABULARY)
        for name in STATES:
            assert alone.caches[name][:, :, 0].tolist() == kept[name][:, :, 1].tolist()


@pytest.mark.slow
def test_all_ways_generate_the_same_tokens_and_copy_nothing_between_devices() -> None:
    done = decode("--tokens", "8", "--past", "6", "--devices", "mlip,cpu_acc", "--serve")
    assert done.returncode == 0
    assert "cpu_acc: " in done.stdout
    assert "mlip: 12 operations in 4 steps" in done.stdout
    assert "\n0 bytes copied for a token\n" in done.stdout
    lines = re.findall(r"^(\S.*?) +\d+ tokens a second: (.*) …$", done.stdout, re.MULTILINE)
    assert [name for name, _ in lines] == ["ONNX Runtime alone", "nnhal", "nnhal over V2", "nnhal, streamed"]
    assert len({tokens for _, tokens in lines}) == 1


@pytest.mark.slow
def test_caches_that_grow_yield_the_same_tokens_all_ways() -> None:
    done = decode("--tokens", "6", "--growing", "--serve")
    assert done.returncode == 0
    lines = re.findall(r"^(\S.*?) +\d+ tokens a second: (.*) …$", done.stdout, re.MULTILINE)
    assert [name for name, _ in lines] == ["ONNX Runtime alone", "nnhal", "nnhal over V2", "nnhal, streamed"]
    assert len({tokens for _, tokens in lines}) == 1


@pytest.mark.slow
def test_a_device_that_is_unknown_is_said_in_a_line() -> None:
    done = decode("--tokens", "1", "--past", "2", "--devices", "cpu_acc,npx")
    assert done.returncode == 1
    assert "no driver is called 'npx'; there are cpu_acc," in done.stderr
    assert "Traceback" not in done.stderr
