from __future__ import annotations

import re
from dataclasses import replace

import pytest

from nnhal_mlip.command.compiling import CompiledNetwork
from nnhal_mlip.command.network_perf import network_perf
from nnhal_mlip.command.rendering import perf_page, perf_parts
from tests.support.consoles import printed_parts
from tests.support.html import Page, parsed

NASTY = "<script>alert('1')</script> & \"quoted\".onnx"


def written(network: CompiledNetwork, name: str = "digits.onnx") -> str:
    return perf_page(replace(network, model=replace(network.model, name=name)))


@pytest.fixture(scope="module")
def document(compiled_digits: CompiledNetwork) -> Page:
    return parsed(written(compiled_digits))


def test_sections_have_headings(document: Page, compiled_parts: CompiledNetwork) -> None:
    titles = ["Summary", "Layers", "Tiles", "Memory over time", "Profile"]
    assert [element.text for element in document.all("h2")] == titles
    several = [element.text for element in parsed(written(compiled_parts)).all("h2")]
    assert several[1] == "Layers of tvmgen_mrvl_main_0" and several[4] == "Layers of tvmgen_mrvl_main_1"


def test_every_time_is_called_modelled_and_every_figure_a_guess(document: Page) -> None:
    assert "Every time here is modelled by the profile cn106, whose figures are guesses" in document.text
    assert "each is a guess" in document.text
    assert "The host computes scores" in document.text


def test_the_page_loads_nothing_and_runs_nothing(compiled_digits: CompiledNetwork) -> None:
    assert not re.search(r"<script|<link|<img|@import|url\((?!#)|https?://", written(compiled_digits))


def test_texts_are_escaped(compiled_digits: CompiledNetwork) -> None:
    text = written(compiled_digits, NASTY)
    assert "<script" not in text
    assert NASTY in parsed(text).text


def test_the_tables_say_what_binds_and_what_is_least(compiled_digits: CompiledNetwork) -> None:
    perf = network_perf(compiled_digits)
    assert perf.least <= perf.cycles
    text = printed_parts(perf_parts(perf))
    assert "conv2 + relu2" in text and "bound by" in text
    assert f"no schedule takes less than {perf.least:,} cycles" in text
    assert perf.host_ns > 0
    assert perf.whole_ns == perf.hardware_ns + perf.firmware_ns + perf.host_ns
    words = " ".join(text.split())
    assert f"the host computes scores, modelled {perf.host_ns / 1000:,.1f} µs" in words
    assert f"to its outputs a run takes {perf.whole_ns / 1000:,.1f} µs" in words
