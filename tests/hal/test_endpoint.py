"""Words that a process leaves in its directory beside its sockets."""

from __future__ import annotations

from pathlib import Path

from nnhal.endpoint import Endpoint, endpoints_below


def test_a_process_that_cannot_start_leaves_word_until_one_serves(tmp_path: Path) -> None:
    endpoint = Endpoint(tmp_path / "npu")
    assert endpoint.trouble == "" and endpoints_below(tmp_path) == []
    endpoint.write_trouble("refused\n\x1b[31m" + "x" * 5000)
    assert endpoint.trouble.startswith("refused  [31mxxx") and len(endpoint.trouble) <= 1024
    assert endpoints_below(tmp_path) == [endpoint]
    assert [path.name for path in endpoint.directory.iterdir()] == ["trouble"]
    endpoint.write_trouble("another")
    assert endpoint.trouble == "another"
    endpoint.clear_trouble()
    endpoint.clear_trouble()
    assert endpoint.trouble == "" and endpoints_below(tmp_path) == []


def test_a_directory_that_cannot_be_used_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    Endpoint(tmp_path / "file").write_trouble("refused")
    assert Endpoint(tmp_path / "file").trouble == ""
