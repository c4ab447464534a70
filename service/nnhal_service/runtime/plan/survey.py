"""The survey of devices: what each supports of a model, and at what cost, before it is split."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, replace
from typing import NamedTuple

from nnhal.arrays import Array
from nnhal.codec import graphs_to_wire
from nnhal.errors import DeadObjectError, HalError, MissingMethodError, NnhalError
from nnhal.extensions import element_sizes
from nnhal.remote import DeviceDescription
from nnhal.resolved import propagate_dimensions
from nnhal.types import ErrorStatus, Model, TransferCosts
from nnhal_frontends.imported import ImportedModel
from nnhal_hosting.logs import get_logger
from nnhal_service.fallback import Side, edge_ns
from nnhal_service.partition import Candidate, Task, as_main
from nnhal_service.runtime.devices.fleet import Fleet, FleetMember
from nnhal_service.runtime.plan.optimisations import Optimisations
from nnhal_service.runtime.plan.source_steps import SourceSteps, taking_in_words

LAYOUT_CODE = "LAYOUT"
"""The code of refusals of operations that a device would take with channels last."""
_ALIGNMENT = 64
"""The alignment of arguments that the HAL recommends, in bytes."""
_MAY_ANSWER_LATER = (ErrorStatus.RESOURCE_EXHAUSTED_TRANSIENT, ErrorStatus.DEVICE_UNAVAILABLE)
_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Survey:
    """A model, and what the devices answered about it."""

    task: Task
    imported: ImportedModel
    members: Mapping[str, FleetMember]
    descriptions: Mapping[str, DeviceDescription | None]
    sides: Mapping[str, Side]
    candidates: Sequence[Candidate]
    constants: Sequence[Mapping[int, Array]]
    value_names: Sequence[str]
    """A name for each operand of main: the user's if it has one, and no other's."""
    optimisations: Optimisations
    source_steps: SourceSteps
    """Steps in the words of the user's file, for the devices that prefer them."""
    origins: Sequence[int | None]
    """For each operation of main, its number in the imported model; None if the framework added it."""
    wanting: frozenset[str] = frozenset()
    """Devices that refuse some operations only since their images have channels first."""

    def says_the_same(self, other: Survey) -> bool:
        """Return whether the devices have answered the same as in another survey of the model.

        What a network costs is measured, and differs each time that a device on another host is connected.
        """
        return self._answers() == other._answers()

    def _answers(self) -> object:
        described = {
            name: replace(known, transfer_costs=TransferCosts())
            if known is not None and known.transfer_costs.is_wire
            else known
            for name, known in self.descriptions.items()
        }
        asked = [
            (c.name, dict(c.refusals), tuple(c.operation_ns), tuple(c.referenced), tuple(c.together))
            for c in self.candidates
        ]
        return described, asked, self.wanting

    def of(self, members: Sequence[FleetMember]) -> Survey:
        """Return the same answers of some of the devices only, which are connected by now as these members."""
        found = {candidate.name: candidate for candidate in self.candidates}
        connected = {member.name: member for member in members}
        return replace(
            self,
            members=connected,
            descriptions={name: self.descriptions[name] for name in connected},
            candidates=[found[name] for name in connected],
            wanting=self.wanting & connected.keys(),
            optimisations=Optimisations(connected, self.descriptions, self.optimisations),
        )


def survey_model(imported: ImportedModel, fleet: Fleet, devices: Sequence[str]) -> Survey:
    """Ask the named devices, or all if none are named, about a model and its subgraphs. A dead one is left out.

    Raises HalError if the model contradicts itself, LookupError for a device that the fleet does not know.
    """
    members, descriptions = described(fleet, devices)
    sides = {name: _side(name, description) for name, description in descriptions.items()}
    return _survey(
        imported, members, descriptions, sides, _asked(imported, fleet, members.values(), sides, descriptions)
    )


def survey_unasked(
    imported: ImportedModel,
    members: Mapping[str, FleetMember],
    descriptions: Mapping[str, DeviceDescription | None],
    devices: Collection[str],
) -> Survey:
    """A survey in which certain devices take the model and the others are not considered; none is asked.

    Raises HalError if the model contradicts itself.
    """
    sides = {name: _side(name, description) for name, description in descriptions.items()}
    candidates = [Candidate(name, members[name].capabilities, {}, hop_ns=sides[name].costs.hop_ns) for name in devices]
    return _survey(imported, members, descriptions, sides, list(map(_Answer, candidates)))


def described(
    fleet: Fleet, devices: Sequence[str], answering: bool = True
) -> tuple[dict[str, FleetMember], dict[str, DeviceDescription | None]]:
    """The named devices, or all if none are named, and what they say of themselves. A dead one is left out, and, if
    they must be ``answering`` now, one that does not.

    Raises LookupError for a device that the fleet does not know.
    """
    members: dict[str, FleetMember] = {}
    descriptions: dict[str, DeviceDescription | None] = {}
    for member in fleet.available(devices, answering):
        try:
            descriptions[member.name] = _describe(member)
        except DeadObjectError:
            continue  # as one that is not there
        except NnhalError as error:
            _log.warning("a device does not describe itself; it is left out", device=member.name, reason=str(error))
            continue
        members[member.name] = member
    return members, descriptions


def _survey(
    imported: ImportedModel,
    members: Mapping[str, FleetMember],
    descriptions: Mapping[str, DeviceDescription | None],
    sides: Mapping[str, Side],
    answers: Sequence[_Answer],
) -> Survey:
    resolved = imported.resolved()
    dimensions, *referenced = (propagate_dimensions(resolved, number) for number in range(len(resolved.subgraphs)))
    sizes = element_sizes(imported.model, [e for member in members.values() for e in member.extensions])
    task = Task(
        imported.model,
        imported.operation_nodes,
        dimensions,
        edge_ns(sides),
        sizes,
        referenced,
        edge_ns(sides, is_fetched=True) if any(side.costs.is_wire for side in sides.values()) else None,
    )
    candidates, source_steps = _in_words(imported, answers)
    return Survey(
        task,
        imported,
        members,
        descriptions,
        sides,
        candidates,
        resolved.constants,
        _value_names(imported),
        Optimisations(members, descriptions),
        source_steps,
        range(len(imported.model.main.operations)),
        frozenset(answer.candidate.name for answer in answers if answer.wants_channels_last),
    )


class _Answer(NamedTuple):
    """Answer of a device about a model."""

    candidate: Candidate
    """The device with the operations that it refuses."""
    wants_channels_last: bool = False
    prefers_words: bool = False
    """True if it prefers steps in the words of the file."""
    takes_words: bool = False
    """True if it refuses some operations, and takes the whole model in the words of the file."""


def _asked(
    imported: ImportedModel,
    fleet: Fleet,
    members: Collection[FleetMember],
    sides: Mapping[str, Side],
    descriptions: Mapping[str, DeviceDescription | None],
) -> list[_Answer]:
    """Ask all devices at once, since each has a process of its own."""

    graphs = graphs_to_wire(imported.model)

    def ask(member: FleetMember) -> _Answer:
        return _answer(member, fleet, imported, graphs, sides[member.name], descriptions[member.name])

    if len(members) < 2:
        return [ask(member) for member in members]
    contexts = [copy_context() for _ in members]
    with ThreadPoolExecutor(len(members), "survey") as threads:
        return list(threads.map(lambda context, member: context.run(ask, member), contexts, members))


def _in_words(imported: ImportedModel, answers: Sequence[_Answer]) -> tuple[list[Candidate], SourceSteps]:
    """Let devices that take the whole model in the file's words take all operations."""
    only: dict[str, Mapping[int, str]] = {}
    found: list[Candidate] = []
    for answer in answers:
        candidate = answer.candidate
        if answer.prefers_words:
            only[candidate.name] = candidate.refusals if answer.takes_words else {}
        if answer.takes_words:
            candidate = taking_in_words(candidate, [other.candidate for other in answers if other is not answer])
        found.append(candidate)
    return found, SourceSteps(imported, only)


def _takes_in_words(member: FleetMember, imported: ImportedModel) -> bool:
    main = imported.model.main
    whole = imported.source and imported.source.model_of(imported.model, main.input_indexes, main.output_indexes)
    if not whole:
        return False
    try:
        return not _assessed(member, whole).refusals
    except NnhalError:
        return False


def _value_names(imported: ImportedModel) -> list[str]:
    names: list[str] = []
    taken: set[str] = set()
    for operand, given in enumerate(imported.operand_names):
        name = given or f"operand {operand}"
        while name in taken:  # files may use a name twice
            name += f" (operand {operand})"
        taken.add(name)
        names.append(name)
    return names


def _describe(member: FleetMember) -> DeviceDescription | None:
    """A device's description; None if it has no backend. Raises NnhalError."""
    try:
        return member.remote.describe()
    except MissingMethodError:
        return None


def _side(name: str, description: DeviceDescription | None) -> Side:
    """A device as one end of an edge; without a backend, it takes the memory that the HAL makes mandatory."""
    return Side(name, alignment=_ALIGNMENT) if description is None else Side.of(name, description)


def _answer(
    member: FleetMember,
    fleet: Fleet,
    imported: ImportedModel,
    graphs: bytes,
    side: Side,
    description: DeviceDescription | None,
) -> _Answer:
    """Ask a device, which refuses all operations if it cannot answer, or has died of the question."""
    model, fatal = imported.model, fleet.fatal_models
    try:
        fatal.require_harmless(member, lambda: [model])
        with fatal.doing(member, "was asked about", lambda: [model]):
            refusals, costs, wants, together = _assessed(member, model, graphs)
            numbers = range(len(model.referenced))
            referenced = [_assessed(member, as_main(model, number)).refusals for number in numbers]
    except NnhalError as error:
        _log.warning("a device does not say what it takes of a model", device=member.name, reason=str(error))
        operations = range(len(imported.model.main.operations))
        status = error.status if isinstance(error, HalError) else ErrorStatus.DEVICE_UNAVAILABLE
        unanswered = status if status in _MAY_ANSWER_LATER else ErrorStatus.NONE
        refusals, wants = dict.fromkeys(operations, str(error)), False
        candidate = Candidate(member.name, member.capabilities, refusals, unanswered=unanswered)
    else:
        hop_ns, measured = side.costs.hop_ns, member.calibration  # a sync is an edge's
        if measured is not None:
            costs = measured.operation_ns(costs)
            hop_ns = hop_ns if side.costs.is_wire else measured.launch_ns
        candidate = Candidate(
            member.name, member.capabilities, refusals, costs, hop_ns, referenced=referenced, together=together
        )
    extension = None if imported.source is None else imported.source.extension
    prefers = description is not None and extension is not None and description.source_extension == extension
    takes = prefers and bool(candidate.refusals) and _takes_in_words(member, imported)
    return _Answer(candidate, wants, prefers, takes)


class _Assessed(NamedTuple):
    refusals: dict[int, str]
    """Why the device does not support operations, by their numbers."""
    operation_ns: Sequence[float]
    """Its modelled times, if it has any."""
    wants_channels_last: bool = False
    together: Sequence[tuple[int, ...]] = ()
    """The operations that it takes only together."""


def _assessed(member: FleetMember, model: Model, graphs: bytes | None = None) -> _Assessed:
    """Return what a device says of a main subgraph; without a backend, it says neither why nor how long.

    ``graphs`` is what ``graphs_to_wire`` gave for the model, if others are asked about it too. Raises as the questions
    do.
    """
    try:
        assessment = member.remote.assess_model(model, graphs)
    except MissingMethodError:
        supported = member.remote.supported_operations(model)
        refused = {index: "it does not say why" for index, answer in enumerate(supported) if not answer}
        return _Assessed(refused, ())
    refusals = {
        index: f"{answer.code}: got {answer.got}, allowed {answer.allowed}" + (answer.hint and f"; {answer.hint}")
        for index, answer in enumerate(assessment.operations)
        if not answer.supported
    }
    wants = any(answer.code == LAYOUT_CODE for answer in assessment.operations if not answer.supported)
    return _Assessed(refusals, assessment.operation_ns, wants, assessment.together)
