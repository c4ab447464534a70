"""Models that are served or that clients have loaded, loading them, and the plans by which they run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any

from nnhal.errors import NnhalError
from nnhal.v1 import framework_pb2
from nnhal.v1.framework_admin_pb2 import PlanTarget, ServedModelState
from nnhal_client.explanation import Explanation, explanation_from_wire
from nnhal_pages.copies import planned_copies
from nnhal_pages.operating.plain import plain, plain_value
from nnhal_pages.operating.snapshot import Snapshot
from nnhal_pages.operating.table import (
    Done,
    OperatedSystem,
    Resource,
    ResourceColumn,
    Verb,
    VerbChange,
    VerbOption,
    undoing,
)

ModelName = Annotated[str, VerbOption("A model of the repository.", names="models")]


def _models(snapshot: Snapshot) -> Iterator[tuple[Any, bool]]:
    """Models of the repository, and those that sessions have loaded; with each whether it is served."""
    if snapshot.framework is not None:
        yield from ((model, True) for model in snapshot.framework.models)
        yield from ((model, False) for model in snapshot.framework.session_models)


def _state(model: Any, is_served: bool) -> str:
    if not is_served:
        return f"of session framework/{model.session}, {model.bindings} bound"
    return f"{model.state} ({model.reason})" if model.reason else str(model.state)


def _devices(model: Any, is_served: bool) -> str:
    missing = f" (without {', '.join(model.missing)})" if is_served and model.missing else ""
    return ", ".join(model.devices) + missing


def _oldest_ns(model: Any, is_served: bool) -> int | None:
    return (model.oldest_request_ns if is_served else model.oldest_run_ns) or None


def _served(head: str, value: Callable[[ServedModelState], Any], unit: str = "") -> ResourceColumn:
    return ResourceColumn(head, lambda model, is_served: value(model) if is_served else None, unit)


def _mean_ns(model: ServedModelState) -> float:
    return model.counts.duration_ns / model.counts.requests if model.counts.requests else -1


def load(at: OperatedSystem, name: ModelName) -> Done:
    """Load a model of the repository, or load it again."""
    return load_files(at, name)


def load_files(at: OperatedSystem, name: str, config_json: str = "", files: Mapping[str, bytes] | None = None) -> Done:
    """Load a model, from files by VERSION/NAME if the repository does not have it."""
    before = _states(at, name)
    at.contacts.framework().load(name, config_json, files)
    undo = "" if "READY" in before else undoing("models", name, "unload")
    return Done(f"{name} is loaded", {"name": name}, change=VerbChange(name, ", ".join(before), undo))


def unload(at: OperatedSystem, name: ModelName) -> Done:
    """Unload all versions of a model."""
    before = _states(at, name)
    at.contacts.framework().unload(name)
    change = VerbChange(name, ", ".join(before), undoing("models", name, "load"))
    return Done(f"{name} is unloaded", {"name": name}, change=change)


def apply(
    at: OperatedSystem,
    name: ModelName,
    pins: Annotated[list[str] | None, VerbOption("Each name:GLOB=DEVICE, op:TYPE=DEVICE or index:N-M=DEVICE.")] = None,
    devices: Annotated[list[str] | None, VerbOption("The devices that may be used; all by default.")] = None,
    version: Annotated[str, VerbOption("The newest that is ready by default.")] = "",
) -> Done:
    """Have a model run by the plan that it has with these pins."""
    before = at.contacts.framework().explain(PlanTarget(model=name, version=version), as_it_runs=True)
    pinned = [f"{pin.match}={pin.device}" for pin in before.pins]
    undo = undoing("models", name, "apply", pins=pinned, version=version)
    change = VerbChange(name, f"pinned {', '.join(pinned)}" if pinned else "without pins", undo)
    wire = [framework_pb2.Pin(match=match, device=device) for match, device in map(pin_pair, pins or ())]
    lines = at.contacts.framework().apply(name, wire, devices or (), version)
    return Done(f"{name} runs by the new plan.", {"name": name, "config_lines": lines}, change=change)


def _states(at: OperatedSystem, name: str) -> list[str]:
    """Return the states of a model's versions."""
    framework = at.look().framework
    return [model.state for model in (framework.models if framework is not None else ()) if model.name == name]


def pin_pair(text: str) -> tuple[str, str]:
    """Read MATCH=DEVICE. Raises ValueError."""
    match, _, device = text.rpartition("=")
    if not match or not device:
        raise ValueError(f"pin {text[:80]!r}, expected MATCH=DEVICE")
    return match, device


def _plans(at: OperatedSystem, snapshot: Snapshot) -> Iterator[tuple[str, Explanation | None, str]]:
    """Ask for the plan of each model that is loaded, as it runs; with each why there is none."""
    if snapshot.framework is None:
        return
    ready = [model for model in snapshot.framework.models if model.state == "READY"]
    targets = [PlanTarget(model=model.name, version=model.version) for model in ready]
    targets += [PlanTarget(model=model.name, session=model.session) for model in snapshot.framework.session_models]
    for target in targets:
        name = f"{target.session}/{target.model}" if target.session else target.model
        try:
            answer = at.contacts.framework().explain(target, as_it_runs=True)
        except NnhalError as error:  # it was unloaded meanwhile
            yield name, None, str(error)
        else:
            yield name, explanation_from_wire(answer.explanation), ""


def _of_plan(head: str, value: Callable[[Explanation], Any], unit: str = "") -> ResourceColumn:
    return ResourceColumn(head, lambda _, plan, __: None if plan is None else value(plan), unit)


MODELS = Resource(
    "models",
    "Models that are served, and those that native clients have loaded.",
    (
        ResourceColumn("model", lambda model, _: model.name),
        _served("version", lambda model: model.version),
        ResourceColumn("state", _state),
        ResourceColumn("devices", _devices),
        _served("requests", lambda model: model.counts.requests),
        _served("failures", lambda model: model.counts.failures),
        _served("mean", _mean_ns, "ns"),
        _served("queued", lambda model: model.queued),
        ResourceColumn("oldest", _oldest_ns, "ns, waited", "-"),
        ResourceColumn("arena", lambda model, _: model.arena_bytes, "B"),
    ),
    "no models; 'nnhal ctl load NAME' loads one of the repository",
    _models,
    value=lambda model, _: plain(model),
    of_framework=True,
    parts={"served": lambda _, is_served: is_served, "of_sessions": lambda _, is_served: not is_served},
    verbs=(Verb("load", load), Verb("unload", unload)),
)
PLANS = Resource(
    "plans",
    "Plans by which models run: steps, devices, modelled time, bytes copied.",
    (
        ResourceColumn("model", lambda name, *_: name),
        _of_plan("steps", lambda plan: len(plan.steps)),
        _of_plan("devices", lambda plan: list(dict.fromkeys(step.device for step in plan.steps))),
        _of_plan("operations", lambda plan: len(plan.operations)),
        _of_plan("modelled", lambda plan: plan.modelled_ns or -1, "ns"),
        _of_plan("between", lambda plan: planned_copies(plan)[0], "B"),
        _of_plan("clients", lambda plan: planned_copies(plan)[1], "B"),
        _of_plan("peak", lambda plan: plan.peak_bytes, "B"),
        ResourceColumn("problem", lambda _, __, problem: problem),
    ),
    "no model is loaded",
    asked=_plans,
    value=lambda name, plan, problem: {"model": name, "problem": problem or None, "plan": plain_value(plan)},
    of_framework=True,
    verbs=(Verb("apply", apply),),
)
