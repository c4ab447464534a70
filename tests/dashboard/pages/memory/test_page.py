"""The pages of memory."""

from __future__ import annotations

from nnhal.errors import DeadObjectError
from nnhal.v1 import admin_pb2, framework_admin_pb2, supervisor_pb2
from nnhal_pages.operating.snapshot import ObservedProcess
from tests.support.dashboard import (
    PageBrowser,
    ScriptedCollector,
    device_process,
    framework_process,
    framework_state,
)
from tests.support.html import parsed

_MIB = 1 << 20


def _said(name: str, **fields: object) -> admin_pb2.GetProcessResponse:
    return admin_pb2.GetProcessResponse(name=name, is_whole=True, **fields)  # type: ignore[arg-type]


def _explained(*values: dict[str, object]) -> framework_admin_pb2.ExplainTargetResponse:
    return framework_admin_pb2.ExplainTargetResponse(
        explanation={  # type: ignore[arg-type]
            "steps": [{"device": "npu"}, {"device": "cpu"}],
            "fallback_bytes": 4096,
            "arena_values": values,
        }
    )


def test_memory_that_two_processes_hold_is_one_row_and_counts_once() -> None:
    pool = {"memory": "1:7", "kind": "ashmem", "bytes": 3 * _MIB, "seals": ["shrink", "grow"], "mapped": True}
    collector = ScriptedCollector(
        device_process("a", _said("a", pools=[pool | {"session": "s1"}])),
        device_process("b", _said("b", pools=[pool | {"session": "s4", "staged": True, "mapped": False}])),
    )
    page = parsed(PageBrowser(collector).page("/memory"))
    assert "1 pieces, each counted once" in page.text
    row = next(each for each in page.all("tr") if "1:7" in each.text)
    assert "a, session s1: mapped" in row.text and "b, session s4: staged" in row.text
    assert "grow, shrink" in row.text
    figures = [each.text for each in page.having("figure")]
    assert figures[1:3] == ["3 MiB", "3 MiB"]


def test_resident_memory_and_buffers_are_by_process() -> None:
    device = admin_pb2.GetDeviceResponse(workers=1, buffer_bytes=2 * _MIB, buffer_limit_bytes=64 * _MIB)
    said = _said("npu", usage={"resident_bytes": 100 * _MIB})
    page = parsed(PageBrowser(ScriptedCollector(device_process("npu", said, device))).page("/memory"))
    row = next(each for each in page.all("tr") if "npu" in each.text)
    for expected in ("100 MiB", "2 MiB", "64 MiB"):
        assert expected in row.text


def test_growth_in_an_hour_is_told_with_who_holds_most() -> None:
    held = [{"id": f"s{n}", "client_name": f"app{n}", "objects": [{"kind": "binding", "bytes": n}]} for n in (1, 2)]

    def moment(minute: int) -> ObservedProcess:
        said = _said("npu", usage={"resident_bytes": (100 + minute) * _MIB}, sessions=held)
        return device_process("npu", said)

    collector = ScriptedCollector(moment(0), at=1.7e9)
    for minute in range(1, 5):
        collector.show(moment(minute), at=1.7e9 + 60 * minute)
    row = next(each for each in parsed(PageBrowser(collector).page("/memory")).all("tr") if "npu" in each.text)
    assert "/h" not in row.text  # it is not known for long enough
    for minute in range(5, 31):
        collector.show(moment(minute), at=1.7e9 + 60 * minute)
    row = next(each for each in parsed(PageBrowser(collector).page("/memory")).all("tr") if "npu" in each.text)
    assert "+60 MiB/h" in row.text
    assert "s2 app2" in row.text


def test_shared_memory_is_chosen_by_process_and_session() -> None:
    pools = [{"session": f"s{n}", "memory": f"1:{n}", "bytes": 64, "kind": "ashmem"} for n in (1, 2)]
    browser = PageBrowser(ScriptedCollector(device_process("npu", _said("npu", pools=pools)), device_process("b")))
    assert "1:2" not in browser.page("/memory?process=npu&session=s1")
    assert "1:1" in browser.page("/memory?process=npu&session=s1")
    assert "No shared memory is held there." in browser.page("/memory?process=b")


def test_the_largest_pieces_are_shown_and_the_rest_is_counted() -> None:
    pools = [{"session": "s1", "memory": f"1:{n}", "bytes": 1000 + n, "kind": "ashmem"} for n in range(230)]
    page = parsed(PageBrowser(ScriptedCollector(device_process("npu", _said("npu", pools=pools)))).page("/memory"))
    assert "1:229" in page.text and "30 smaller ones are not shown" in page.text
    assert not [row for row in page.all("tr") if row.text.strip().startswith("1:29\n")]


def test_buffers_are_shown_with_their_roles_and_dimensions() -> None:
    buffer = {"session": "s1", "token": 3, "bytes": 4096, "dimensions": [1, 0], "type": "TENSOR_FLOAT16"}
    buffer |= {"roles": ["input 0 of prepared model 7"], "initialized": True}
    text = PageBrowser(ScriptedCollector(device_process("npu", _said("npu", buffers=[buffer])))).page("/memory")
    for expected in ("TENSOR_FLOAT16", "[1, ?]", "input 0 of prepared model 7", "/sessions/npu/s1"):
        assert expected in text


def test_fences_say_who_owes_and_who_waits_the_oldest_first() -> None:
    fences = [
        {"session": "s1", "owed_by": "launch 12", "awaited_by": "launch 13", "since_ns": 20, "is_owed": True},
        {"session": "s2", "awaited_by": "launch 4", "since_ns": 10},
    ]
    page = parsed(PageBrowser(ScriptedCollector(device_process("npu", _said("npu", fences=fences)))).page("/memory"))
    rows = [row.text for row in page.all("tr") if "launch" in row.text]
    assert "launch 4" in rows[0] and "somebody else" in rows[0]
    assert "launch 12 this process" in rows[1] and "launch 13" in rows[1]


def test_empty_parts_say_what_would_be_there() -> None:
    text = PageBrowser(ScriptedCollector(device_process(), framework_process())).page("/memory")
    for expected in (
        "No shared memory is held.",
        "No buffer is allocated.",
        "No model has an arena",
        "Nobody waits for a fence.",
    ):
        assert expected in text


def test_a_process_that_does_not_answer_and_one_without_a_key_are_named() -> None:
    collector = ScriptedCollector(
        device_process("a", silence="it is gone"), device_process("b", admin_pb2.GetProcessResponse(name="b"))
    )
    text = PageBrowser(collector).page("/memory")
    assert "a does not answer, so the memory there is not known." in text
    assert "no admin key of b" in text


def test_models_with_several_steps_lead_to_their_arenas() -> None:
    state = framework_state(
        models=[
            {"name": "digits", "version": "2", "state": "READY", "devices": ["npu", "cpu"], "arena_bytes": 2 * _MIB},
            {"name": "whole", "version": "1", "state": "READY", "devices": ["npu"]},
        ],
        session_models=[{"session": "s3", "name": "a&b", "devices": ["npu"], "arena_bytes": 64}],
    )
    text = PageBrowser(ScriptedCollector(framework_process(), framework=state)).page("/memory")
    assert "/memory/arena?model=digits&amp;version=2" in text
    assert "/memory/arena?model=a%26b&amp;session=s3" in text
    assert "whole" not in text


def test_an_arena_is_drawn_and_its_values_are_listed() -> None:
    collector = _with_model()
    value = {"value": "relu<1>", "memory": "ashmem", "offset": 64, "bytes": 2048, "first_step": 0, "last_step": 1}
    collector.contacts.answers["framework", "explain"] = _explained(value)
    page = parsed(PageBrowser(collector).page("/memory/arena?model=digits"))
    assert len(page.all("svg")) == 1
    row = next(row for row in page.all("tr") if "relu<1>" in row.text)
    for expected in ("2 KiB", "0, npu", "1, cpu"):
        assert expected in row.text


def test_a_plan_without_an_arena_says_why() -> None:
    collector = _with_model()
    collector.contacts.answers["framework", "explain"] = _explained()
    assert "No value lies in an arena" in PageBrowser(collector).page("/memory/arena?model=digits")


def test_the_framework_is_asked_again_only_when_the_plan_may_have_changed() -> None:
    collector = _with_model()
    collector.contacts.answers["framework", "explain"] = _explained()
    browser = PageBrowser(collector)
    for _ in range(3):
        browser.page("/memory/arena?model=digits")
    assert len(collector.contacts.calls) == 1
    event = supervisor_pb2.ProcessEvent(subject="digits", kind="replanned", at_ns=5)
    collector.show(framework_process(), framework=collector.snapshot.framework, events=(event,))
    browser.page("/memory/arena?model=digits")
    assert len(collector.contacts.calls) == 2


def test_a_model_that_is_not_loaded_has_no_arena() -> None:
    collector = _with_model()
    browser = PageBrowser(collector)
    assert "no model &#39;none&#39; of the repository" in browser.page("/memory/arena?model=none", 404)
    assert "of session s9" in browser.page("/memory/arena?model=digits&session=s9", 404)


def test_a_framework_that_is_gone_is_told() -> None:
    collector = _with_model()
    collector.contacts.answers["framework", "explain"] = DeadObjectError("the framework has ended")
    assert "the framework has ended" in PageBrowser(collector).page("/memory/arena?model=digits", 502)


def _with_model() -> ScriptedCollector:
    model = {"name": "digits", "version": "1", "state": "READY", "devices": ["npu", "cpu"], "arena_bytes": 4096}
    return ScriptedCollector(framework_process(), framework=framework_state(models=[model]))
