"""A device as one side of a comparison, and the helper that computes what the device declines."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from nnhal.arrays import Array
from nnhal.errors import HalError, general_failure
from nnhal.remote import RemoteDevice
from nnhal.types import DeviceType
from nnhal_tools.cases.asked_device import AskedDevice, EndedError
from nnhal_tools.cases.runner import refusals
from nnhal_tools.diff.observing import Observed, observe
from nnhal_tools.diff.subject import SideValues, Subject, Values

HELPER = "cpu_ref"
"""The driver that computes what a device declines."""
_FIRST_SHOWN = 8
"""Inner values that are asked of an accelerator first: its working memory may not hold all of them."""
_SHOWN_REASONS = 3


class DeviceSide:
    """A device. Operations that it declines run on a helper, in segments between its own."""

    def __init__(self, device: AskedDevice, helper: Callable[[], RemoteDevice], subject: Subject) -> None:
        """``helper`` is called if the device declines an operation, or dies of one."""
        self.name = device.name
        self._device, self._subject, self._helper = device, subject, helper
        self.supported = device.remote.supported_operations(subject.model)
        self.seconds = device.seconds
        self.ends: dict[int, str] = {}
        """How the device has died of operations in the model, or that they took too long: the helper computes them."""

    def require_any(self) -> None:
        """Raise ValueError if the device declines every operation: then nothing of it can be compared."""
        if not any(self.supported):
            reasons = {reason for reason in self.refusals().values() if reason}
            why = f" ({'; '.join(sorted(reasons)[:_SHOWN_REASONS])})" if reasons else ""
            raise ValueError(f"{self.name} declines every operation of the model{why}: there is nothing to compare")

    def runs_on(self, operations: Sequence[int]) -> str:
        """Return the name of what runs operations: the device's, or the helper's if it runs one of them."""
        return self.name if all(self.supported[number] for number in operations) else HELPER

    def refusals(self) -> dict[int, str]:
        """Return why the device declines operations, in words; empty words if it does not say."""
        declined = [number for number, is_supported in enumerate(self.supported) if not is_supported]
        if not declined:
            return {}
        known = refusals(self._device.remote, self._subject.model)
        return {number: known.get(number, "") for number in declined}

    def observe(self, samples: Sequence[Values]) -> SideValues:
        """Run the whole model on each sample of its inputs, with the values inside.

        Operations that the device dies of are in ``ends`` then. Raises DeadObjectError if it cannot be started again.
        """
        known = [dict(sample) for sample in samples]
        fused: list[int] = []
        repeats = True
        for own, operations in self._segments(self._subject.everything):
            outputs = self._subject.outputs_of(operations)
            piece = _Segment(self._subject, self._owner(own), operations, outputs, known)
            inner = [
                operand
                for number in operations
                for operand in self._subject.model.main.operations[number].outputs
                if operand in self._subject.computed and operand not in outputs
            ]
            is_cpu = piece.device.remote.device_type() == DeviceType.CPU
            try:
                found = observe(piece, inner, None if is_cpu else _FIRST_SHOWN)
            except EndedError as error:
                found = self._one_by_one(piece, error.message)
            fused += found.fused
            repeats &= found.repeats
            for values, more in zip(known, found.samples, strict=True):
                values.update(more)
        notes = [] if repeats else [f"{self.name} gives other bits each time that it runs: its values are of one run"]
        if self._device.deaths and not self.ends:
            notes.append(f"{self._device.deaths[0]} as it was asked for values inside the model, and was started again")
        return SideValues(known, tuple(fused), tuple(notes))

    def run(self, operations: Sequence[int], outputs: Sequence[int], samples: Sequence[Values]) -> list[Values]:
        """Run some operations alone on given values. Raises HalError if they cannot be run alone."""
        known = [dict(sample) for sample in samples]
        for own, members in self._segments(operations):
            needed = {*outputs, *self._subject.inputs_of([n for n in operations if n > members[-1]])}
            here = [operand for n in members for operand in self._subject.model.main.operations[n].outputs]
            wanted = tuple(operand for operand in here if operand in needed)
            piece = _Segment(self._subject, self._owner(own), members, wanted, known)
            for values, more in zip(known, piece.run(()), strict=True):
                values.update(more)
        return [{operand: values[operand] for operand in outputs} for values in known]

    def _one_by_one(self, piece: _Segment, end: str) -> Observed:
        """Run each operation alone, since the device dies of all together, and find those that it dies of."""
        known = [dict(sample) for sample in piece.samples]
        before = len(self.ends)

        def values_of(number: int, device: AskedDevice) -> list[Mapping[int, Array]]:
            outputs = self._subject.outputs_of((number,))
            return _Segment(self._subject, device, (number,), outputs, known).run(())

        for number in piece.operations:
            try:
                found = values_of(number, piece.device)
            except HalError as error:
                if isinstance(error, EndedError):
                    self.ends[number] = error.message
                found = values_of(number, self._owner(False))
            for values, more in zip(known, found, strict=True):
                values.update(more)
        if len(self.ends) == before:
            number, words = self._together(piece, end)
            self.ends[number] = words
        return Observed(known)

    def _together(self, piece: _Segment, end: str) -> tuple[int, str]:
        """Return the operation of which the device dies after those before it, and how."""
        for count in range(2, len(piece.operations)):
            operations = piece.operations[:count]
            outputs = self._subject.outputs_of(operations)
            try:
                _Segment(self._subject, piece.device, operations, outputs, piece.samples).run(())
            except EndedError as error:
                return operations[-1], f"{error.message}, after the operations before it and not by itself"
            except HalError:
                continue
        return piece.operations[-1], f"{end}, after the operations before it and not by itself"

    def _owner(self, own: bool) -> AskedDevice:
        return self._device if own else AskedDevice(HELPER, self._helper())

    def _segments(self, operations: Sequence[int]) -> list[tuple[bool, tuple[int, ...]]]:
        """Return operations in turn, those together that run on the same device."""
        return [
            (own, tuple(members))
            for own, members in groupby(operations, key=lambda n: self.supported[n] and n not in self.ends)
        ]


@dataclass(frozen=True, slots=True)
class _Segment:
    """Consecutive operations on one device, with their inputs for each sample."""

    subject: Subject
    device: AskedDevice
    operations: tuple[int, ...]
    outputs: tuple[int, ...]
    samples: Sequence[Values] = field(repr=False)

    def run(self, shown: Sequence[int]) -> list[Mapping[int, Array]]:
        return self._run(self.operations, (*self.outputs, *shown), self.samples)

    def cut_at(self, value: int) -> list[Mapping[int, Array]]:
        main = self.subject.model.main
        last = next(number for number in self.operations if value in main.operations[number].outputs)
        mine = set(self.operations)
        first = tuple(number for number in self.subject.before(last) if number in mine)
        rest = tuple(number for number in self.operations if number not in set(first))
        passed = self.subject.outputs_of(first)
        before = self._run(first, passed, self.samples)
        known = [{**sample, **values} for sample, values in zip(self.samples, before, strict=True)]
        if rest:
            here = {operand for number in rest for operand in main.operations[number].outputs}
            after = self._run(rest, tuple(operand for operand in self.outputs if operand in here), known)
            known = [{**values, **more} for values, more in zip(known, after, strict=True)]
        return list(known)

    def _run(
        self, operations: Sequence[int], outputs: Sequence[int], samples: Sequence[Values]
    ) -> list[Mapping[int, Array]]:
        model, inputs = self.subject.cut(operations, outputs)
        if not inputs or not outputs:
            general_failure(f"these operations have no {'outputs' if inputs else 'inputs'}: they cannot run alone")
        given = [[sample[operand] for operand in inputs] for sample in samples]
        is_whole = tuple(operations) == self.subject.everything
        place = "the model" if is_whole else " + ".join(map(self.subject.place, operations))
        results = self.device.run(model, given, place)
        return [dict(zip(outputs, arrays, strict=True)) for arrays in results]
