"""Text about networks, in tables and on pages."""

from __future__ import annotations

from dataclasses import replace

from nnhal_client.explanation import Counterfactual, EdgeStory, Explanation, LinkStory
from nnhal_pages.comparison.pairing import figures
from nnhal_pages.explanation.fragment import fragment
from nnhal_pages.units import size
from nnhal_pages.wires import link_words, sent_words, whole_model_words, wire_total
from tests.support.explanations import explained, residual
from tests.support.html import parsed

LOCAL = explained(residual(15))


def remote() -> Explanation:
    """Return the plan with npu on another host."""
    devices = tuple(replace(d, link=LinkStory(1.2e6, 10.0) if d.name == "npu" else None) for d in LOCAL.devices)
    alone = (Counterfactual("npu", 5e6, "", 2e6), Counterfactual("cpu", 9e6, ""))
    return replace(
        LOCAL, edges=tuple(map(_sent, LOCAL.edges)), devices=devices, counterfactuals=alone, wire_ns=1_500_000.0
    )


def _sent(edge: EdgeStory) -> EdgeStory:
    up, down = edge.bytes * (edge.destination == "npu"), edge.bytes * (edge.source == "npu")
    return replace(edge, copied_bytes=up + down, wire_up_bytes=up, wire_down_bytes=down)


def test_words_say_directions_bytes_and_times() -> None:
    edge = replace(LOCAL.edges[0], wire_up_bytes=4096, wire_down_bytes=0)
    assert sent_words(edge) == "4 KiB up the wire"
    assert sent_words(replace(edge, wire_down_bytes=8)) == "4 KiB up and 8 B down the wire"
    assert sent_words(LOCAL.edges[0]) == ""
    assert link_words(1_200_000, 10) == "a round trip takes 1.20 ms, 100 MB/s"
    assert link_words(1_200_000, 0) == "a round trip takes 1.20 ms"
    assert whole_model_words(Counterfactual("npu", 5e6, "", 2e6)) == "5.00 ms, of which 2.00 ms on the wire"
    assert whole_model_words(Counterfactual("cpu", 9e6, "")) == "9.00 ms"


def test_a_plan_says_what_a_run_sends_only_if_it_sends_something() -> None:
    plan = remote()
    assert (
        wire_total(plan) == f"{size(plan.wire_up_bytes)} up, {size(plan.wire_down_bytes)} down a run, 1.50 ms modelled"
    )
    assert plan.wire_up_bytes > 0 and plan.wire_down_bytes > 0
    assert wire_total(LOCAL) == ""


def test_the_page_shows_the_wire_in_sums_devices_edges_and_the_graph() -> None:
    page = parsed(fragment(remote()))
    (sums,) = page.having("sums")
    assert f"{size(remote().wire_up_bytes)} up, {size(remote().wire_down_bytes)} down" in sums.text
    (devices,) = page.having("devices")
    assert "On another host: a round trip takes 1.20 ms, 100 MB/s" in devices.text
    assert "5.00 ms, of which 2.00 ms on the wire" in devices.text
    assert "4 KiB down the wire" in page.having("edges")[0].text
    assert "by wire" in page.having("graph")[0].text
    assert "wire" not in parsed(fragment(LOCAL)).text


def test_plans_are_compared_by_what_they_send() -> None:
    named = {name: (before, after) for name, before, after, _ in figures(LOCAL, remote())}
    assert [named[f"Bytes {way} the wire in a run"][1] for way in ("up", "down")] == [
        remote().wire_up_bytes,
        remote().wire_down_bytes,
    ]
    assert [named["Modelled time on the wire"][number] for number in (0, 1)] == [0, 1_500_000]
    assert not any("wire" in name for name, *_ in figures(LOCAL, LOCAL))
