"""Reading a scrape of metrics."""

from __future__ import annotations

from collections.abc import Mapping

from prometheus_client.parser import text_string_to_metric_families

M = {"model": "m", "version": "1"}


class Scrape:
    """The samples of a scrape, by their names in the text."""

    def __init__(self, text: bytes) -> None:
        self.text = text.decode()
        self._samples = {
            (sample.name, tuple(sorted(sample.labels.items()))): sample.value
            for family in text_string_to_metric_families(self.text)
            for sample in family.samples
        }

    def of(self, name: str, labels: Mapping[str, str] = M, **more: str) -> float:
        """Return one value. The parser appends ``_total`` to the names of counters; ``name`` may omit it."""
        key = tuple(sorted({**labels, **more}.items()))
        found = self._samples.get((name, key), self._samples.get((name + "_total", key)))
        assert found is not None, f"no {name} with {key} in\n{self.text}"
        return found

    def total(self, name: str, labels: Mapping[str, str]) -> float:
        """Return the sum of all samples with these labels, whatever their other labels."""
        found = [value for (known, of), value in self._samples.items() if known == name and labels.items() <= set(of)]
        assert found, f"no {name} with {labels} in\n{self.text}"
        return sum(found)

    def has(self, name: str) -> bool:
        return any(found == name for found, _ in self._samples)

    def sum(self, name: str, labels: Mapping[str, str]) -> float:
        """Return the same as ``total``, or 0 without a sample. ``name`` may omit ``_total``."""
        names = (name, name + "_total")
        return sum(
            value for (known, of), value in self._samples.items() if known in names and labels.items() <= set(of)
        )
