"""Name scopes: which there are, and how a graph shows them."""

from __future__ import annotations

from xml.etree.ElementTree import fromstring

from nnhal_pages.graph import GraphView, NameScope, PlanLinks, PlanScopes, plan_graph
from tests.support.explanations import Placed, explained, scoped

PLAN = explained(scoped(80))
LINKS = PlanLinks(
    lambda number: f"/operations/{number}",
    lambda number: f"/steps/{number}",
    lambda _: "?open",
    lambda unfolded, at: f"?unfolded={sorted(unfolded)}#{at}",
)


def names(scopes: PlanScopes, *unfolded: int) -> list[str | int]:
    return [item.name if isinstance(item, NameScope) else item for item in scopes.visible(0, unfolded)]


def test_scopes_are_the_words_of_names_without_what_all_have_in_common() -> None:
    scopes = PlanScopes(PLAN)
    assert names(scopes) == ["encoder/block0", "encoder/block1"]
    assert names(scopes, 0) == ["encoder/block0/attention", "encoder/block0/mlp", "encoder/block1"]
    assert names(scopes, 0, 1)[:3] == [0, 1, 2]
    assert [scope.name for scope in scopes.around(45)] == ["encoder/block1", "encoder/block1/attention"]
    assert scopes.all[0].members == tuple(range(40))


def test_a_small_step_has_none_and_neither_have_names_without_words() -> None:
    assert PlanScopes(explained(scoped(40))).all == []
    plain = [Placed(f"node{number}", "RELU", "npu", (f"v{number}",), (f"v{number + 1}",)) for number in range(80)]
    assert PlanScopes(explained(plain)).all == []


def test_words_may_have_dots_between_them() -> None:
    dotted = [
        Placed(f"layers.{number // 40}.node{number}", "RELU", "npu", (f"v{number}",), (f"v{number + 1}",))
        for number in range(80)
    ]
    assert [scope.name for scope in PlanScopes(explained(dotted)).all] == ["layers/0", "layers/1"]


def test_a_folded_scope_is_one_box_that_leads_to_its_content() -> None:
    view = GraphView(LINKS, open=frozenset({0}), selected=frozenset({50}), unfolded=frozenset())
    picture = fromstring(plan_graph(PLAN, view).embedded())
    boxes = [each for each in picture.iter("a") if "scope" in each.attrib["class"].split()]
    assert [(box.attrib["href"], box.attrib["aria-label"]) for box in boxes] == [
        ("?unfolded=[0]#0", "Unfold encoder/block0, 40 operations, 40.0 µs"),
        ("?unfolded=[3]#40", "Unfold encoder/block1, 40 operations, 40.0 µs"),
    ]
    assert [box.attrib["id"] for box in boxes] == ["plan-operation-0", "plan-operation-40"]
    assert ["selected" in box.attrib["class"].split() for box in boxes] == [False, True]
    assert not any(each.attrib.get("id") == "plan-operation-1" for each in picture.iter("a"))
    between = [each for each in picture.iter("title") if each.text == "v40"]
    assert len(between) == 1


def test_unfolded_scopes_show_their_operations_and_without_folding_all_are_shown() -> None:
    for unfolded, count in ((frozenset({0, 1, 2}), 41), (None, 80)):
        drawing = plan_graph(PLAN, GraphView(LINKS, open=frozenset({0}), unfolded=unfolded))
        assert sum("-operation-" in each.get("id", "") for each in fromstring(drawing.embedded()).iter("a")) == count
