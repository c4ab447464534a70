"""Changes by operators to containers that serve: replace the framework, add and remove devices, drain and restart."""

from __future__ import annotations

import time

import numpy as np
import pytest
import tritonclient.grpc

from nnhal_tools.demo.digits import INPUT, held_out
from tests.support.tritonclients import Triton
from tests.support.waiting import wait_until
from tests.testbed.bed import DEVICES, FRAMEWORK, ContainerBed
from tests.testbed.compose import FILE, ROOT, ComposeProject
from tests.testbed.requests import SteadyRequests

pytestmark = pytest.mark.testbed
EXITS_TO_BE_STARTED_AGAIN = "75"
ADDED = "cpu_acc_2"


def test_the_framework_is_replaced_while_devices_live_and_clients_come_back(bed: ContainerBed) -> None:
    digits = held_out()
    devices = {name: bed.project.container(name).pid for name in DEVICES}
    old = bed.project.container("framework").id
    with Triton("grpc", tritonclient.grpc, bed.address("framework", 8001)) as client:

        def predicted() -> int:
            answer = client.infer("digits", {INPUT: digits.images[:1]}, headers=bed.bearer("infer"))
            return int(np.argmax(answer.as_numpy(answer.get_response().outputs[0].name)))

        assert predicted() == digits.labels[0]
        bed.project.run("up", "--detach", "--no-build", "--no-deps", "--force-recreate", "framework")
        bed.wait_until_whole()
        assert predicted() == digits.labels[0]  # over the same client, which has connected anew
    assert bed.project.container("framework").id != old
    assert devices == {name: bed.project.container(name).pid for name in DEVICES}
    assert bed.in_client("fenced.py", FRAMEWORK, "cpu_acc", "cpu_ref")["right"]


def test_a_device_is_added_and_removed_while_the_others_serve(bed: ContainerBed) -> None:
    more = ComposeProject(bed.project.name, (FILE, ROOT / "deploy/compose.more.yml"))
    others = {name: bed.project.container(name).pid for name in (*DEVICES, "framework")}
    try:
        more.run("up", "--detach", "--no-build", "--no-recreate", ADDED)
        wait_until(lambda: more.container(ADDED).serves, f"{ADDED} serves", 60)
        assert bed.nnhal("ctl", "add", ADDED) == f"the framework knows {ADDED}\n"
        assert bed.standings()[ADDED]["available"]
        answer = bed.in_client("large_tensors.py", FRAMEWORK, ADDED, "cpu_ref")
        assert answer["right"] and answer["steps"] == [ADDED, "cpu_ref"]
        assert bed.nnhal("ctl", "remove", ADDED) == f"the framework has forgotten {ADDED}\n"
    finally:
        more.run("rm", "--stop", "--force", ADDED)
    assert set(bed.standings()) == set(DEVICES)
    assert others == {name: bed.project.container(name).pid for name in others}


def test_a_device_is_drained_and_restarted_by_the_engine_without_a_lost_request(bed: ContainerBed) -> None:
    container = bed.project.container("cpu_acc")
    pid, since = container.pid, time.time()
    url = f"http://{bed.address('framework', 8000)}/v2/models/digits/infer"
    with SteadyRequests(url, bed.bearer("infer"), INPUT, held_out().images[0]) as requests:
        wait_until(lambda: requests.answered > 0, "requests are answered")
        bed.nnhal("drain", "cpu_acc")
        assert bed.standings()["cpu_acc"]["draining"]
        answered = requests.answered
        wait_until(lambda: requests.answered > answered, "requests are answered by other devices")
        assert "the engine of its container starts it again" in bed.nnhal("restart", "cpu_acc")
        wait_until(lambda: container.pid not in (0, pid) and container.serves, "cpu_acc serves again", 60)
        bed.nnhal("start", "cpu_acc")
        bed.wait_until_whole()
    assert not requests.problems
    exits = [event.status for event in container.events(since) if event.action == "die"]
    assert exits == [EXITS_TO_BE_STARTED_AGAIN]
