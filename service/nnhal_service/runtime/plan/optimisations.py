"""Devices' optimisations of the steps of one model: each is asked once about a step, and its answer is remembered.

A device that says that it optimises nothing is not asked, nor is one whether it fails in a step that it has prepared
before: what it makes of that is asked when somebody wants to see it.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import replace

from nnhal.errors import HalError, MissingMethodError, NnhalError
from nnhal.remote import DeviceDescription
from nnhal.types import FailedSubgraph, OptimizationViews
from nnhal_service.partition import Step
from nnhal_service.partition.substitution import substituted
from nnhal_service.runtime.devices.fleet import FleetMember

_MOST_KEPT = 1024
"""How many answers are remembered; each is some hundred bytes, apart from subgraphs that a device may give."""
_Question = tuple[str, tuple[int, ...], tuple[int, ...]]


class Optimisations:
    """The answers of some devices. Safe to use from several threads."""

    def __init__(
        self,
        members: Mapping[str, FleetMember],
        descriptions: Mapping[str, DeviceDescription | None],
        earlier: Optimisations | None = None,
    ) -> None:
        """``earlier`` has answers about the same model, and learns those that are given here."""
        self._members = members
        self._without = {name for name, known in descriptions.items() if known is not None and known.optimizes_nothing}
        self._known: _Answers = _Answers() if earlier is None else earlier._known
        self._is_kept: Callable[[Step], bool] = lambda _: False

    def trusting(self, is_kept: Callable[[Step], bool]) -> Optimisations:
        """Return the same answers, with steps whose devices have prepared them before, and keep that."""
        found = copy(self)
        found._is_kept = is_kept
        return found

    def failed(self, step: Step) -> Sequence[FailedSubgraph]:
        """Return what a step's device cannot do in it; nothing if it has prepared the step before."""
        return () if step.device not in self._without and self._is_kept(step) else self.views(step).failed

    def views(self, step: Step) -> OptimizationViews:
        """Return how a step's device optimises it; not at all if it has no backend, cannot answer, or has died."""
        if step.device in self._without:
            return _untouched(step)
        if step.scope:  # the number of a scope does not tell its subgraph
            return self._ask(step) or _untouched(step)
        question = step.device, step.operations, step.carried
        views = self._known.get(question)
        if views is None:
            views = self._ask(step)
            if views is None:
                return _untouched(step)
            self._known.add(question, views)
        return views

    def substitutions(self, step: Step) -> tuple[str, ...]:
        """Return what a step's device makes of its operations, in the device's words."""
        return tuple(each.replacement for each in self.views(step).substitutions)

    def prepared(self, step: Step) -> Step:
        """The step as its device prepares it: with the subgraphs that the device has made of its operations.

        Branches and bodies of loops are as they are: the device would have to be asked about them once more. Raises
        GENERAL_FAILURE if a subgraph does not fit.
        """
        substitutions = () if step.scope else self.views(step).substitutions
        return replace(step, model=substituted(step.model, substitutions, step.device)) if substitutions else step

    def _ask(self, step: Step) -> OptimizationViews | None:
        try:
            return self._members[step.device].remote.optimize_subgraph(step.model)
        except (HalError, MissingMethodError):  # it will not say more the next time
            return _untouched(step)
        except NnhalError:
            return None


class _Answers:
    """The answers that were used last."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[_Question, OptimizationViews] = OrderedDict()

    def get(self, question: _Question) -> OptimizationViews | None:
        with self._lock:
            if question in self._kept:
                self._kept.move_to_end(question)
            return self._kept.get(question)

    def add(self, question: _Question, views: OptimizationViews) -> None:
        with self._lock:
            self._kept[question] = views
            if len(self._kept) > _MOST_KEPT:
                self._kept.popitem(last=False)


def _untouched(step: Step) -> OptimizationViews:
    return OptimizationViews((), (), tuple(range(len(step.operations))))
