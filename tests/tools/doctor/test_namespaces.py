"""Namespaces, in a /proc of links that the tests make."""

from __future__ import annotations

from pathlib import Path

from nnhal_tools.doctor.finding import Status
from nnhal_tools.doctor.namespaces import check_namespaces, check_process
from nnhal_tools.doctor.sockets import ListeningSocket

OURS = {"ipc": "ipc:[1]", "pid": "pid:[2]", "net": "net:[3]"}


def _proc(folder: Path, processes: dict[str, dict[str, str]]) -> Path:
    for name, namespaces in {"self": OURS, **processes}.items():
        (folder / name / "ns").mkdir(parents=True)
        for kind, target in namespaces.items():
            (folder / name / "ns" / kind).symlink_to(target)
    return folder


def test_the_same_namespaces_are_well(tmp_path: Path) -> None:
    assert check_process("framework", 7, _proc(tmp_path, {"7": OURS})).status is Status.OK


def test_another_ipc_namespace_is_about_shared_memory(tmp_path: Path) -> None:
    finding = check_process("framework", 7, _proc(tmp_path, {"7": {**OURS, "ipc": "ipc:[9]"}}))
    assert finding.status is Status.WARN
    assert "/dev/shm" in finding.message and "--ipc" in finding.todo


def test_a_process_that_is_not_seen_is_in_another_pid_namespace(tmp_path: Path) -> None:
    finding = check_process("framework", 0, _proc(tmp_path, {}))
    assert finding.status is Status.WARN and "pid namespace" in finding.message


def test_what_a_process_does_not_show_is_said(tmp_path: Path) -> None:
    finding = check_process("framework", 7, _proc(tmp_path, {"7": {}}))
    assert finding.status is Status.WARN and "ipc, pid, net" in finding.message


def test_a_process_with_several_sockets_is_compared_once(tmp_path: Path) -> None:
    proc = _proc(tmp_path, {"7": OURS})
    listeners = [ListeningSocket(tmp_path / "framework" / name, 7, 0) for name in ("framework.sock", "link.sock")]
    assert [f.check for f in check_namespaces(listeners, proc)] == ["namespaces of framework"]
