"""The plans that versions of models had before."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, cast

from nnhal_service.operating.earlier_plans import EarlierPlans
from nnhal_service.repository import Repository
from nnhal_service.serving import ServedModel


class _Served:
    """In place of a repository with one version of each model, which serves by the plan that a test says."""

    def __init__(self) -> None:
        self.serial = 0
        self.steps: tuple[str, ...] = ()

    def serve(self, *steps: str) -> None:
        """Load it again, by a plan with these devices."""
        self.serial += 1
        self.steps = steps

    def versions(self, _: str) -> list[str]:
        return ["1"] if self.steps else []

    @contextmanager
    def model(self, _: str, version: str) -> Iterator[Any]:
        sketch = SimpleNamespace(
            choice=SimpleNamespace(pins=()),
            survey=SimpleNamespace(descriptions={"npu": None, "cpu": None}),
            plan=SimpleNamespace(steps=[SimpleNamespace(device=device) for device in self.steps]),
            modelled_ns=None,
        )
        loaded = SimpleNamespace(original=sketch)
        yield SimpleNamespace(serial=self.serial, model=SimpleNamespace(loaded=loaded))


def test_a_version_that_serves_by_another_plan_has_the_one_before() -> None:
    repository = _Served()
    plans = EarlierPlans(cast(Repository[ServedModel], repository))
    for steps in (("npu",), ("npu",), ("npu", "cpu"), ("cpu",)):
        repository.serve(*steps)
        plans.look("net")
        plans.look("net")
    assert [list(each.steps) for each in plans.of("net", "")] == [["npu"], ["npu", "cpu"]]
    assert plans.of("net", "1") == plans.of("net", "")
    assert plans.of("net", "2") == plans.of("other", "1") == []


def test_they_outlast_an_unload_and_the_last_eight_are_kept() -> None:
    repository = _Served()
    plans = EarlierPlans(cast(Repository[ServedModel], repository))
    for number in range(12):
        repository.serve(f"npu{number}")
        plans.look("net")
        repository.steps = ()
        plans.look("net")
    assert [list(each.steps) for each in plans.of("net", "1")] == [[f"npu{number}"] for number in range(3, 11)]
