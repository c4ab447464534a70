"""The page of an explanation, and the fragment that other pages embed."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from nnhal_client.explanation import (
    Counterfactual,
    DeviceStory,
    EdgeStory,
    Explanation,
    Measured,
    OperationStory,
    StepStory,
)
from nnhal_pages.explanation.fragment import fragment, page, style
from tests.support.html import Page, parsed

NASTY = "<script>alert('1')</script> & \"quoted\""
LONG = "/".join(f"layer_{number}" for number in range(20)) + NASTY
REFUSAL = f"DTYPE: got {NASTY}, allowed TENSOR_FLOAT32"


def edge(value: str, source: int, destination: int, copied: int = 0) -> EdgeStory:
    """A value of 64 bytes from step to step, of which step 0 is on npu and step 1 on cpu."""
    names = {-1: "client", 0: "npu", 1: "cpu"}
    strategy = "CopyToTarget" if copied else "ExportToTarget"
    return EdgeStory(
        value=value,
        source_step=source,
        source=names[source],
        destination_step=destination,
        destination=names[destination],
        strategy=strategy,
        layer="MemCopy",
        memory="ashmem",
        bytes=64,
        copied_bytes=copied,
        alignment=16,
        sync=False,
        reason=f"because of {NASTY}",
        modelled_ns=10.0,
    )


EXPLANATION = Explanation(
    operations=(
        OperationStory((LONG,), "CONV_2D", "npu", 0, 1500.0, {"gpu": REFUSAL}),
        OperationStory((), "SOFTMAX", "cpu", 1, 500.0, {"gpu": REFUSAL, "npu": "OP: got SOFTMAX"}),
    ),
    steps=(StepStory("npu", 1, 2000.0, (f"compiled {NASTY}",)), StepStory("cpu", 1, 600.0, ())),
    edges=(edge("x", -1, 0, 64), edge("v", 0, 1), edge("w", 0, 1), edge(NASTY, 1, -1)),
    devices=(DeviceStory("npu", NASTY, True), DeviceStory("gpu", "", True), DeviceStory("cpu", "numpy", False)),
    modelled_ns=2_600.0,
    counterfactuals=(Counterfactual("npu", 0.0, NASTY), Counterfactual("cpu", 9_000_000.0, "")),
    fallback_bytes=128,
    fallback_bytes_unaligned=100,
    constant_bytes=1000,
    client_bytes=72,
)
MEASURED = Measured(
    runs=1,
    duration_ns=4_000_000.0,
    step_device_ns=(1_000.0, -1),
    step_driver_ns=(1_100.0, -1),
    step_copy_ns=(0.0, -1),
    copied_bytes=64,
    ledger=(),
)


@pytest.fixture
def embedded() -> Page:
    return parsed(fragment(EXPLANATION))


def test_a_summary_comes_first(embedded: Page) -> None:
    headings = [element.text for element in embedded.all("h2")]
    assert headings == ["Summary", "Plan", "Devices", "Operations", "Edges", "Memory between steps", "Each operation"]
    figures = dict(zip([e.text for e in embedded.all("dt")], [e.text for e in embedded.having("figure")], strict=False))
    assert figures == {
        "Modelled time of a run": "2.6 µs",
        "Devices in use": "2 of 3",
        "Steps": "2",
        "Copied in a run, between devices": "0 B",
        "Copied in a run, to and from clients": "64 B",
        "Copied in a run, staged": "64 B",
        "Peak memory": "1.17 KiB",
    }


def test_measured_times_are_beside_the_modelled_ones() -> None:
    text = parsed(fragment(replace(EXPLANATION, measured=MEASURED))).text
    assert "measured: 4.00 ms, 1,538 times the model, median of 1 run" in text
    assert "modelled 2.0 µsmeasured 1.0 µs" in text  # a line each
    assert "measured -" not in text


def test_the_plan_is_drawn_as_steps_and_with_every_operation(embedded: Page) -> None:
    closed, opened = embedded.all("svg")
    assert "2 steps and 2 operations" in closed.attributes["aria-label"] == opened.attributes["aria-label"]
    assert "layer_0" not in closed.text and "layer_0" in opened.text
    (legend,) = embedded.having("legend")
    assert legend.text == "npu 1 step, 1 operationcpu 1 step, 1 operation"


def test_every_link_leads_to_a_place_on_the_page(embedded: Page) -> None:
    places = [element.attributes["id"] for element in embedded.elements if "id" in element.attributes]
    links = {element.attributes["href"] for element in embedded.all("a")}
    assert len(places) == len(set(places))
    assert links <= {f"#{place}" for place in places}
    assert {"#plan-operation-0", "#plan-step-1", "#plan-all-step-1", "#plan-closed"} <= links


def test_two_fragments_of_a_page_share_no_id() -> None:
    one, other = (re.findall(r" id='([^']+)'", fragment(EXPLANATION, name=name)) for name in ("old", "new"))
    assert one and set(one).isdisjoint(other)


def test_a_long_node_name_is_short_in_its_row_and_whole_in_its_title(embedded: Page) -> None:
    names = {element.text for element in embedded.having("name") if element.attributes.get("title") == LONG}
    (name,) = names
    head, tail = name.split("…")
    assert LONG.startswith(head) and LONG.endswith(tail)
    assert len(name) < 50 < len(LONG)


def test_a_reason_is_short_in_its_row_and_in_full_below(embedded: Page) -> None:
    assert [cell.text for cell in embedded.having("reasons")] == ["gpu: DTYPE", "gpu: DTYPE; npu: OP"]
    first, second = embedded.having("panel")
    assert REFUSAL in first.text and LONG in first.text
    assert "cpu○ could run it" in first.text
    assert "could run it" not in second.text


def test_control_flow_of_the_framework_has_a_group_of_its_own() -> None:
    walked = OperationStory(("loop",), "WHILE", "framework", -1, 0.0, {"gpu": REFUSAL})
    operations = (*EXPLANATION.operations, walked)
    whole = parsed(fragment(replace(EXPLANATION, operations=operations)))
    titles = [group.text.partition(":")[0] for group in whole.having("group")]
    assert titles == ["Step 0 on npu", "Step 1 on cpu", "Control flow that the framework walks"]
    assert "WHILE" in whole.text


def test_every_table_has_a_caption_and_headers_with_a_scope(embedded: Page) -> None:
    assert embedded.counts["table"] == embedded.counts["caption"] == 5
    scopes = {header.attributes["scope"] for header in embedded.all("th")}
    assert scopes == {"col", "row", "rowgroup"}


def test_texts_are_escaped_everywhere(embedded: Page) -> None:
    written = fragment(EXPLANATION)
    assert "<script" not in written
    assert not re.search(r"\"quoted", written)
    assert embedded.text.count(NASTY) >= 6
    assert "<script" not in page(EXPLANATION, NASTY)
    assert parsed(page(EXPLANATION, NASTY)).all("h1")[0].text == NASTY


def test_a_fragment_stands_alone() -> None:
    written = fragment(EXPLANATION, level=4)
    embedded = parsed(written)
    (section,) = embedded.all("section")
    assert written.startswith("<section") and written.endswith("</section>")
    assert "nnhal-plan" in section.attributes["class"]
    assert embedded.counts["h4"] == 7
    assert not any("style" in element.attributes for element in embedded.elements)
    assert not any(element.tag in ("script", "style", "link", "img") for element in embedded.elements)


def test_every_rule_of_the_style_is_for_fragments_alone() -> None:
    sheet = re.sub(r"/\*.*?\*/", "", style(), flags=re.DOTALL)
    selectors = [part.strip() for chunk in re.findall(r"([^{}]+)\{", sheet) for part in chunk.split(",")]
    assert [s for s in selectors if not s.startswith((".nnhal-plan", "@media"))] == []
    assert "url(" not in sheet and "@import" not in sheet


def test_every_class_of_a_colour_has_a_rule() -> None:
    many = tuple(DeviceStory(f"device_{number}", "", True) for number in range(9))
    written = fragment(replace(EXPLANATION, devices=many))
    for name in set(re.findall(r"lane-\d+", written)):
        assert f".{name} " in style()


def test_a_page_is_a_document_with_its_style_and_no_script() -> None:
    document = parsed(page(EXPLANATION, "model on npu"))
    assert document.all("html")[0].attributes == {"lang": "en"}
    assert document.all("title")[0].text == "model on npu"
    assert "prefers-color-scheme: dark" in document.all("style")[0].text
    assert not any(element.tag in ("script", "link") for element in document.elements)


def luminance(colour: str) -> float:
    """Relative luminance of #rrggbb, by WCAG 2."""
    channels = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_texts_and_marks_have_enough_contrast(scheme: int) -> None:
    blocks = re.findall(r"--ground:.*?--f: #\w+", style(), flags=re.DOTALL)
    colours = dict(re.findall(r"--(\w+): (#\w{6})", blocks[scheme]))
    for ground in ("ground", "raised"):
        for name, least in [*((text, 4.5) for text in ("text", "muted", "copy", "free")), *((c, 3) for c in "abcdef")]:
            lighter, darker = sorted((luminance(colours[name]), luminance(colours[ground])), reverse=True)
            assert (lighter + 0.05) / (darker + 0.05) >= least, (name, ground)
