"""``python -m benchmarks.serve --where``: where the framework's own time of a request goes."""

from __future__ import annotations

import json

import pytest

from tests.support.command import benchmark


@pytest.mark.slow
def test_each_stage_of_a_request_is_seen() -> None:
    done = benchmark("serve", "--where", "-i", "http", "-p", "100", "--json")
    assert done.returncode == 0, done.stderr
    (times,) = json.loads(done.stdout)["times"]
    assert (times["transport"], times["concurrency"]) == ("http", 1)
    assert all(us > 0 for us in times["stages"].values()), times["stages"]
    assert times["framework_us"] > 0 and times["device_us"] > 0


def test_only_the_protocol_has_such_stages() -> None:
    done = benchmark("serve", "--where", "-i", "native")
    assert done.returncode == 1 and "--where is over http and grpc" in done.stderr
