"""``nnhal devices``."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from nnhal.errors import MissingMethodError, NnhalError
from nnhal.remote import DeviceDescription, DeviceIdentity, RemoteDevice
from nnhal.types import SLOWEST, Capabilities
from nnhal.v1 import admin_pb2, framework_admin_pb2
from nnhal_pages.wires import link_words
from nnhal_tools.cli.completion import complete_process
from nnhal_tools.cli.operating import DirectoryOption, JsonOption, KeyOption, operator_at, print_json, print_rows, say
from nnhal_tools.operate.operator_session import OperatorError, OperatorSession, Reachable
from nnhal_tools.operate.plain import plain, plain_value
from nnhal_tools.operate.text import in_bytes

_PATIENCE_SECONDS = 5.0
_COLUMNS = ("device", "driver", "type", "use", "runs", "waits", "executions", "staged", "buffers", "models")


def devices(
    name: Annotated[
        str | None, typer.Argument(help="One device, with all that it says of itself.", autocompletion=complete_process)
    ] = None,
    add: Annotated[
        str,
        typer.Option(
            metavar="NAME[=DIR]",
            help="Have the framework know a device that something else has started; DIRECTORY/NAME without DIR.",
        ),
    ] = "",
    remove: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Have the framework plan without such a device, and forget it.",
            autocompletion=complete_process,
        ),
    ] = "",
    directory: DirectoryOption = None,
    admin_key: KeyOption = None,
    as_json: JsonOption = False,
) -> None:
    """List devices; or show one: its performance table, memory rules, figures, and the limits of its operations."""
    if sum(map(bool, (name, add, remove))) > 1:
        raise ValueError("expected one of NAME, --add NAME and --remove NAME")
    with operator_at(directory, admin_key) as operator:
        if add or remove:
            changed = _added(operator, add) if add else _removed(operator, remove)
            done = "knows" if add else "has forgotten"
            say(f"the framework {done} {changed}", as_json, name=changed, known=bool(add))
            return
        standings = _standings(operator)
        if name is not None:
            facts = device_facts(operator, operator.find(name))
            if as_json:
                print_json(_as_dict(facts, standings))
            else:
                _show(facts, standings)
            return
        found = [device_facts(operator, process) for process in operator.processes() if process.kind == "device"]
        if as_json:
            print_json({"devices": [_as_dict(facts, standings) for facts in found]})
        else:
            print_rows(_COLUMNS, [_row(facts, standings) for facts in found], "no devices")


def _added(operator: OperatorSession, text: str) -> str:
    """Add a device that runs already, and return its name. A supervisor of nnhal tells the framework of it itself."""
    name, _, given = text.partition("=")
    if operator.is_supervised:
        directory = Path(given).absolute() if given else operator.directory / name
        operator.supervisor.start_device(name=name, endpoint=str(directory))
        return name
    directory = Path(given).absolute() if given else operator.find(name).endpoint.directory
    with operator.framework() as framework:
        framework.add_device(name, str(directory))
    return name


def _removed(operator: OperatorSession, name: str) -> str:
    if operator.is_supervised:
        operator.supervisor.remove_device(name)
    else:
        with operator.framework() as framework:
            framework.remove_device(name)
    return name


def _standings(operator: OperatorSession) -> dict[str, framework_admin_pb2.DeviceStanding]:
    """What the framework says of devices; nothing if there is none that answers."""
    try:
        with operator.framework() as admin:
            return {standing.name: standing for standing in admin.framework().devices}
    except NnhalError:
        return {}


def _as_dict(facts: DeviceFacts, standings: dict[str, framework_admin_pb2.DeviceStanding]) -> dict[str, Any]:
    """What is known of a device; None for what is not."""
    return {
        "name": facts.name,
        "problem": facts.problem or None,
        "standing": plain(standings[facts.name]) if facts.name in standings else None,
        "identity": plain_value(facts.identity),
        "description": plain_value(facts.description),
        "device": None if facts.state is None else plain(facts.state),
    }


def _row(facts: DeviceFacts, standings: dict[str, framework_admin_pb2.DeviceStanding]) -> tuple[str, ...]:
    standing, identity, state = standings.get(facts.name), facts.identity, facts.state
    use = _use(standing)
    if facts.problem:
        use = f"{use}; {facts.problem}" if use else facts.problem
    return (
        facts.name,
        "" if identity is None else identity.version,
        "" if identity is None else identity.type.name,
        use,
        *(("", "", "", "", "") if state is None else _work(state)),
        "" if standing is None else ", ".join(standing.models),
    )


def _use(standing: framework_admin_pb2.DeviceStanding | None) -> str:
    if standing is None:
        return ""
    if standing.draining:
        return "draining"
    return "in use" if standing.available else f"not used: {standing.reason}"


def _work(state: admin_pb2.GetDeviceResponse) -> tuple[str, ...]:
    limit = f" of {in_bytes(state.buffer_limit_bytes)}" if state.buffer_limit_bytes else ""
    return (
        f"{state.running}/{state.workers}",
        str(state.waiting),
        str(state.executions_ended),
        in_bytes(state.staged_bytes),
        in_bytes(state.buffer_bytes) + limit,
    )


def _show(facts: DeviceFacts, standings: dict[str, framework_admin_pb2.DeviceStanding]) -> None:
    print_rows(_COLUMNS, [_row(facts, standings)], "")
    description, state = facts.description, facts.state
    if description is not None:
        say(description.realisation, False)
        imports = ", ".join(sorted(description.imports)) or "no memory"
        say(f"memory: imports {imports} at multiples of {description.alignment}; stages all other", False)
        costs = description.transfer_costs
        if costs.is_wire:
            say(f"on another host: {link_words(costs.round_trip_ns, costs.copy_ns_per_byte)}", False)
    if facts.identity is not None:
        columns = ("operands", "time by the CPU's", "power by the CPU's")
        print_rows(columns, _performance(facts.identity.capabilities), "no performance table")
    if state is not None:
        if state.wire_up_bytes or state.wire_down_bytes:
            sent = f"{in_bytes(state.wire_up_bytes)} up, {in_bytes(state.wire_down_bytes)} down"
            say(f"values on the wire since the process started: {sent}", False)
        if state.injected_faults:
            say(f"faults injected since the process started: {state.injected_faults}", False)
        figures = [(figure.name, f"{figure.value:g} {figure.unit}".strip()) for figure in state.figures]
        if state.HasField("temperature"):
            figures.append(("temperature", f"{state.temperature:.1f} °C"))
        if figures:
            print_rows(("figure", "value"), figures, "")
        limits = [(limit.operation, limit.conditions or "no conditions") for limit in state.limits]
        print_rows(("operation", "is taken if"), limits, "the driver says nothing of its operations")


def _performance(capabilities: Capabilities) -> list[tuple[str, str, str]]:
    relaxed = "float32 computed as float16"
    infos = {
        f"{relaxed}, scalars": capabilities.relaxed_float32_to_float16_scalar,
        f"{relaxed}, tensors": capabilities.relaxed_float32_to_float16_tensor,
        **{entry.type.name: entry.info for entry in capabilities.operand_performance},
        "IF": capabilities.if_performance,
        "WHILE": capabilities.while_performance,
    }
    return [(name, _ratio(info.exec_time), _ratio(info.power_usage)) for name, info in infos.items()]


def _ratio(value: float) -> str:
    return "the largest" if value >= SLOWEST.exec_time else f"{value:.3g}"


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """A device."""

    name: str
    """Its name in plans."""
    identity: DeviceIdentity | None = None
    """What the HAL says of it; None if it does not answer."""
    description: DeviceDescription | None = None
    """What it says of its backend; None if it does not answer, or has none."""
    state: admin_pb2.GetDeviceResponse | None = None
    """What it does, and the limits of its operations; None if it does not tell."""
    problem: str = ""
    """Why it does not tell everything."""


def device_facts(operator: OperatorSession, process: Reachable) -> DeviceFacts:
    """Ask a device, which may not answer. Raises OperatorError if the process is no device."""
    if process.kind != "device":
        raise OperatorError(f"{process.name} is a process of kind {process.kind!r}, expected a device")
    if process.supervised is not None and not process.supervised.pid:
        return DeviceFacts(process.name, problem="it does not run")
    identity = description = None
    try:
        remote = RemoteDevice(process.endpoint, "nnhal-admin", _PATIENCE_SECONDS)
        try:
            identity = remote.identity(_PATIENCE_SECONDS)
            with suppress(MissingMethodError):  # a device without a backend says no more than the HAL
                description = remote.describe()
        finally:
            remote.close()
        with operator.device(process) as admin:
            return DeviceFacts(process.name, identity, description, admin.device(with_limits=True))
    except NnhalError as error:
        return DeviceFacts(process.name, identity, description, problem=str(error))
