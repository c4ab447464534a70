"""The living picture: clients, models, devices and copies, and what flows between them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple
from urllib.parse import quote, urlencode

from markupsafe import Markup

from nnhal_dashboard.monitoring.plans import PlanSubject
from nnhal_dashboard.monitoring.states import state_of
from nnhal_dashboard.monitoring.traffic import DeviceTraffic, ModelTraffic, ServedTraffic
from nnhal_dashboard.web.formats import UNKNOWN, duration, percent, rate
from nnhal_pages.flow import FlowBand, FlowBlock, flow_picture
from nnhal_pages.operating.snapshot import ObservedProcess, Snapshot
from nnhal_pages.units import size

_MOST_CLIENTS, _MOST_MODELS, _MOST_DEVICES = 6, 10, 12
"""Blocks of a column; what is left over is summed in one more."""
_MOST_IDLE = 4
"""Idle blocks that are drawn if there are no more of them; otherwise they are counted."""
_PACES = ((1e6, "under 1 ms"), (1e7, "1 to 10 ms"), (1e8, "10 to 100 ms"), (float("inf"), "100 ms and more"))
"""Times of a request by which bands are coloured: their upper bounds in nanoseconds."""
PACES: Sequence[tuple[str, str]] = [(f"pace-{number}", words) for number, (_, words) in enumerate(_PACES)]
"""The classes of bands, and what they mean."""
_WIDE, _NARROW = (1180, 212), (358, 96)
"""Widths of the picture and of its blocks, for wide windows and for phones."""
_AWAY = ("down", "silent", "restarting", "starting", "stopped")
_REST = "rest"
_REFUSED = "refused "
_DOT = " · "
"""Between the figures of a line."""


@dataclass(frozen=True, slots=True)
class PassageRow:
    """A band in words."""

    source: str
    target: str
    requests: str
    bytes: str
    time: str


class RefusedInAll(NamedTuple):
    """Operations that a device refused, of all plans."""

    device: str
    words: str
    """``refused 171 of 173: float32``."""
    more: str
    """How many further causes there are."""
    page: str
    """Where a plan says more: that of which it refused most."""


@dataclass(frozen=True, slots=True)
class LivingPicture:
    """The picture for wide windows and for phones, and the same in words."""

    wide: Markup
    narrow: Markup
    rows: Sequence[PassageRow]
    widest: str
    """What flows where the most flows; empty if nothing does."""


class _Passage(NamedTuple):
    requests: float
    bytes: float | None
    ns: float | None


def model_page(key: PlanSubject) -> str:
    """The path of a model's page: of a session's model, which has none, that of its plan."""
    page = f"/models/{quote(key.model, safe='')}"
    return f"/sessions/framework/{quote(key.session, safe='')}{page}/plan" if key.session else page


def refused(traffic: ServedTraffic) -> list[RefusedInAll]:
    """Sum up what devices refused of the plans that are known, who refused most first."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    causes: dict[str, Counter[str]] = defaultdict(Counter)
    most: dict[str, tuple[int, PlanSubject]] = {}
    for model in traffic.models:
        for each in model.plan.refusals:
            counts[each.device].update(refused=each.refused, total=each.total)
            causes[each.device].update({cause.words: len(cause.operations) for cause in each.causes})
            most[each.device] = max(most.get(each.device, (0, model.key)), (each.refused, model.key))
    found = []
    for device, count in sorted(counts.items(), key=lambda item: -item[1]["refused"]):
        words = f"{_REFUSED}{count['refused']:,} of {count['total']:,}: {causes[device].most_common(1)[0][0]}"
        more = len(causes[device]) - 1
        others = f", and {more} more cause{'s' if more > 1 else ''}" if more else ""
        found.append(RefusedInAll(device, words, others, f"{model_page(most[device][1]).removesuffix('/plan')}/plan"))
    return found


def draw(snapshot: Snapshot, traffic: ServedTraffic) -> LivingPicture:
    """Draw what flows."""
    clients, of_client = _clients(traffic)
    models, of_model = _models(traffic.models)
    devices, of_device = _devices(snapshot, traffic)
    copies = _copies(traffic)
    names = {node.key: node.name for node in (*clients, *models, *devices, *copies)}
    passages = _passages(traffic, of_client, of_model, of_device)
    edges = [_edge(ends, passage, names) for ends, passage in passages.items()]
    copied = [
        FlowBand(of_device[name], kind, amount, "copies", f"{name}, {kind}: {size(amount)}/s copied")
        for (name, kind), amount in traffic.copied.items()
        if name in of_device
    ]
    rows = [_row(ends, passage, names) for ends, passage in passages.items()]
    rows += [
        PassageRow(name, f"copied {kind}", UNKNOWN, f"{size(amount)}/s", UNKNOWN)
        for (name, kind), amount in traffic.copied.items()
    ]
    what = "What flows from clients through models to devices, and what is copied"
    columns = [("Clients", clients), ("Models", models), ("Devices", devices)]
    wide = flow_picture(what, [*columns, ("Copies", copies)], edges + copied, *_WIDE)
    narrow = flow_picture(
        what, [(name, [_stacked(node) for node in nodes]) for name, nodes in columns], edges, *_NARROW
    )
    most = max((edge.amount for edge in edges + copied), default=0.0)
    return LivingPicture(Markup(wide.embedded()), Markup(narrow.embedded()), rows, f"{size(most)}/s" if most else "")


def _clients(traffic: ServedTraffic) -> tuple[list[FlowBlock], dict[str, Hashable]]:
    asked: dict[str, float] = defaultdict(float)
    for (client, _), requests in traffic.clients.items():
        asked[client] += requests
    names = sorted(asked, key=lambda name: -asked[name])
    shown, rest = (names, []) if len(names) <= _MOST_CLIENTS else (names[:_MOST_CLIENTS], names[_MOST_CLIENTS:])
    nodes = [
        FlowBlock(("client", name), name, f"/runs?{urlencode({'client': name})}", (rate(asked[name]),))
        for name in shown
    ]
    if rest:
        nodes.append(_others(("client", _REST), len(rest), "/runs", rate(sum(asked[name] for name in rest))))
    return nodes, {name: ("client", name if name in shown else _REST) for name in names}


def _models(models: Sequence[ModelTraffic]) -> tuple[list[FlowBlock], dict[PlanSubject, Hashable]]:
    busy, idle = [each for each in models if not each.is_idle], [each for each in models if each.is_idle]
    shown, rest = busy[:_MOST_MODELS], busy[_MOST_MODELS:]
    nodes = [_model(each) for each in shown]
    if rest:
        nodes.append(_others(("model", _REST), len(rest), "/models", rate(sum(each.requests for each in rest))))
    places: dict[PlanSubject, Hashable] = {each.key: ("model", each.key) for each in shown}
    places |= {each.key: ("model", _REST) for each in rest}
    if len(idle) <= _MOST_IDLE:
        nodes += [FlowBlock(("model", each.key), each.key.model, model_page(each.key), look="idle") for each in idle]
        places |= {each.key: ("model", each.key) for each in idle}
    else:
        nodes.append(_others(("model", "idle"), len(idle), "/models", "idle"))
    return nodes, places


def _model(model: ModelTraffic) -> FlowBlock:
    times = [f"99 % {duration(model.slowest_ns)}"] if model.slowest_ns is not None else []
    lines = _DOT.join([rate(model.requests), *times])
    warning = f"✕ {rate(model.failures)} fail" if model.failures else ""
    name = f"{model.key.model} of {model.key.session}" if model.key.session else model.key.model
    return FlowBlock(("model", model.key), name, model_page(model.key), (lines,), warning=warning)


def _devices(snapshot: Snapshot, traffic: ServedTraffic) -> tuple[list[FlowBlock], dict[str, Hashable]]:
    refusals = {each.device: each.words for each in refused(traffic)}
    used = {name for model in traffic.models if not model.is_idle for name in model.devices}
    busy: list[FlowBlock] = []
    idle: list[FlowBlock] = []
    for process in snapshot.devices:
        does = traffic.devices.get(process.name, DeviceTraffic())
        node = _device(process, state_of(process, snapshot), does, refusals.get(process.name, ""))
        (idle if node.look == "idle" and process.name not in used else busy).append(node)
    room = max(_MOST_DEVICES - len(busy), 0)
    shown = [*busy, *(idle if len(idle) <= room else idle[: max(room - 1, 0)])]
    places: dict[str, Hashable] = {process.name: ("device", _REST) for process in snapshot.devices}
    places |= {node.name: node.key for node in shown}
    left = len(busy) + len(idle) - len(shown)
    if left:
        shown.append(_others(("device", _REST), left, "/devices", "idle"))
    return shown, places


def _device(process: ObservedProcess, state: str, does: DeviceTraffic, refusal: str) -> FlowBlock:
    key, address, refusals = ("device", process.name), process.page, (refusal,) if refusal else ()
    if state in _AWAY:
        return FlowBlock(key, process.name, address, look="lost", warning=f"✕ {state}")
    if not does.executions:
        return FlowBlock(key, process.name, address, refusals, "idle", "" if state == "up" else state)
    line = _DOT.join((f"{percent(does.busy)} busy", rate(does.executions), duration(does.mean_ns)))
    return FlowBlock(key, process.name, address, (line, *refusals), warning="" if state == "up" else state)


def _copies(traffic: ServedTraffic) -> list[FlowBlock]:
    sums: dict[str, float] = defaultdict(float)
    for (_, kind), amount in traffic.copied.items():
        sums[kind] += amount
    nodes = [
        FlowBlock(kind, kind, "/metrics", (f"{size(amount)}/s",))
        for kind, amount in sorted(sums.items(), key=lambda item: -item[1])
    ]
    staged = sum(model.staged_bytes for model in traffic.models)
    if staged:
        nodes.append(FlowBlock("staged", "staged by hosts", "/metrics", (f"{size(staged)}/s of these",), "idle"))
    return nodes or [FlowBlock("nothing", "nothing is copied", "/metrics", look="idle")]


def _stacked(node: FlowBlock) -> FlowBlock:
    """The block with a line for each of its figures, for narrow columns; what it refused stands above the picture."""
    lines = tuple(part for line in node.lines if not line.startswith(_REFUSED) for part in line.split(_DOT))
    return replace(node, lines=lines)


def _others(key: Hashable, count: int, address: str, does: str) -> FlowBlock:
    """One block for all that have none of their own."""
    return FlowBlock(key, f"and {count} other{'s' if count > 1 else ''}, {does}", address, look="idle")


def _passages(
    traffic: ServedTraffic,
    of_client: Mapping[str, Hashable],
    of_model: Mapping[PlanSubject, Hashable],
    of_device: Mapping[str, Hashable],
) -> dict[tuple[Hashable, Hashable], _Passage]:
    """Return what passes between blocks: what is not drawn by itself is summed, with the longest time."""
    found: dict[tuple[Hashable, Hashable], list[_Passage]] = defaultdict(list)
    models = {model.key: model for model in traffic.models}
    for (client, key), requests in traffic.clients.items():
        model = models[key]
        moved = model.plan.client_bytes
        passage = _Passage(requests, None if moved is None else requests * moved, model.mean_ns)
        found[of_client[client], of_model[key]].append(passage)
    for model in traffic.models:
        for name in model.devices:
            if model.key in of_model and name in of_device:
                moved = model.plan.device_bytes.get(name)
                amount = None if moved is None else model.requests * moved
                passage = _Passage(model.requests, amount, model.device_ns.get(name))
                found[of_model[model.key], of_device[name]].append(passage)
    return {ends: _together(passages) for ends, passages in found.items()}


def _together(passages: Sequence[_Passage]) -> _Passage:
    known = [each.bytes for each in passages if each.bytes is not None]
    times = [each.ns for each in passages if each.ns is not None]
    return _Passage(sum(each.requests for each in passages), sum(known) if known else None, max(times, default=None))


def _edge(ends: tuple[Hashable, Hashable], passage: _Passage, names: Mapping[Hashable, str]) -> FlowBand:
    row = _row(ends, passage, names)
    words = f"{row.source} to {row.target}: {row.requests}, {row.bytes}, {row.time} a request"
    pace = next(number for number, (limit, _) in enumerate(_PACES) if (passage.ns or 0.0) < limit)
    return FlowBand(*ends, passage.bytes or 0.0, f"pace-{pace}" if passage.requests else "idle", words)


def _row(ends: tuple[Hashable, Hashable], passage: _Passage, names: Mapping[Hashable, str]) -> PassageRow:
    moved = "bytes unknown" if passage.bytes is None else f"{size(passage.bytes)}/s"
    return PassageRow(names[ends[0]], names[ends[1]], rate(passage.requests), moved, duration(passage.ns))
