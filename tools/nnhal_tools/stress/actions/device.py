"""Reports of a device about itself and about models, and objects that it is to forget."""

from __future__ import annotations

from nnhal.types import ErrorStatus
from nnhal_tools.stress.actor import Actor
from nnhal_tools.stress.broken import TOO_FEW_OPERANDS, break_model
from nnhal_tools.stress.outcomes import INVALID, OK, ask, require


def getters(actor: Actor) -> ErrorStatus:
    """Ask for a static property, which must never change."""
    device = actor.device
    getter = actor.random.choice(
        (
            device.version,
            device.device_type,
            device.capabilities,
            device.supported_extensions,
            device.number_of_cache_files_needed,
            device.describe,
        )
    )
    actor.note(getter.__name__)
    actor.same(getter.__name__, ask(getter, takes=False).value)
    return ErrorStatus.NONE


def usage(actor: Actor) -> ErrorStatus:
    """Ask what the device process holds."""
    answer = ask(actor.device.usage, takes=False).value
    counts = {field.name: value for field, value in answer.ListFields()}
    require(min(counts.values()) >= 0 and answer.sessions > 0, f"usage {counts}")
    return ErrorStatus.NONE


def support(actor: Actor) -> ErrorStatus:
    """Ask which operations of a model the device supports, and why not the others."""
    specimen = actor.random.choice(actor.specimens)
    actor.note(specimen.name)
    answers = ask(lambda: actor.device.supported_operations(specimen.model))
    if answers:
        actor.same(f"support of {specimen.name}", answers.value)
        assessment = ask(lambda: actor.device.assess_model(specimen.model))
        if assessment:
            supported = [answer.supported for answer in assessment.value.operations]
            require(supported == answers.value, f"{supported} with reasons, {answers.value} without")
    return answers.status


def support_of_invalid(actor: Actor) -> ErrorStatus:
    """Ask for the support of an invalid model.

    A device need not know the operands of an operation that it does not support, which then is refused as any other.
    """
    good = actor.random.choice(actor.specimens).model
    what, model = break_model(good, actor.random)
    actor.note(what)
    known = ask(lambda: actor.device.supported_operations(good)) if what == TOO_FEW_OPERANDS else None
    allowed = INVALID | OK if known and not known.value[0] else INVALID
    answer = ask(lambda: actor.device.supported_operations(model), allowed)
    if answer:
        require(not answer.value[0], f"an operation with {what} is supported, expected a refusal")
    return answer.status


def release(actor: Actor) -> ErrorStatus:
    """Release any object: what was made from a prepared model works without it."""
    things = [*actor.prepared, *actor.buffers, *actor.executions, *actor.bursts]
    if things:
        thing = actor.random.choice(things)
        actor.note(type(thing).__name__)
        actor.release(thing)
    return ErrorStatus.NONE


def use_after_release(actor: Actor) -> ErrorStatus:
    """Use a released object, which the device must not know."""
    if not actor.released:
        return release(actor)
    call = actor.random.choice(actor.released)
    actor.note(call)
    return ask(call, INVALID).status
