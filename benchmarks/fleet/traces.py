"""Requests to replay: when each comes, and for which model. Made from a seed, or read from a file."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

_COLUMNS = ["seconds", "model"]


class TraceError(Exception):
    """A trace that cannot be read or made. The message says what was got, and what was expected."""


@dataclass(frozen=True, slots=True)
class RequestTrace:
    """Requests in the order of their instants."""

    instants: NDArray[np.float64]
    """Seconds since the beginning, ascending."""
    models: NDArray[np.int64]
    """The model of each request: an index."""
    shares: NDArray[np.float64]
    """What a placement knows: the share of the requests that each model is expected to get. They sum up to 1."""

    @property
    def rate(self) -> float:
        """Requests per second."""
        return len(self.instants) / float(self.instants[-1])


@dataclass(frozen=True, slots=True)
class Bursts:
    """A Poisson process that alternates between two rates (a Markov-modulated one); how long is exponential."""

    factor: float = 4.0
    """The rate of a burst over the rate between bursts."""
    burst_seconds: float = 0.5
    """Length of a burst, on average."""
    quiet_seconds: float = 2.0
    """Time between two bursts, on average."""


def zipf_shares(models: int, exponent: float) -> NDArray[np.float64]:
    """Return the shares of models whose popularity falls with their rank: 1 / rank ** exponent, made to sum up to 1."""
    weights: NDArray[np.float64] = np.arange(1, models + 1, dtype=np.float64) ** -exponent
    weights /= weights.sum()
    return weights


def made_trace(
    rate: float, count: int, shares: NDArray[np.float64], generator: np.random.Generator, bursts: Bursts | None = None
) -> RequestTrace:
    """Return ``count`` requests, ``rate`` a second on average. Each is for a model at random, by the models' shares."""
    arrivals = np.cumsum(generator.exponential(1.0, count))  # of a process with one arrival per unit of intensity
    instants = arrivals / rate if bursts is None else _modulated(arrivals, rate, bursts, generator)
    models = np.searchsorted(np.cumsum(shares)[:-1], generator.random(count), side="right")
    return RequestTrace(instants, models.astype(np.int64), shares)


def read_trace(path: Path) -> RequestTrace:
    """Read a CSV file with the columns ``seconds`` and ``model``; models may have any names.

    Raises TraceError or OSError. The shares are those of the file: a placement knows them with hindsight.
    """
    with path.open(newline="") as lines:
        reader = csv.DictReader(lines)
        if reader.fieldnames != _COLUMNS:
            raise TraceError(f"{path}: got the columns {reader.fieldnames}, expected {_COLUMNS}")
        instants: list[float] = []
        names: dict[str, int] = {}
        models: list[int] = []
        for row in reader:
            try:
                instants.append(float(row["seconds"]))
            except (TypeError, ValueError) as error:
                raise TraceError(f"{path}: line {reader.line_num}: got {row}, expected seconds and a model") from error
            models.append(names.setdefault(row["model"], len(names)))
    seconds, indices = np.array(instants), np.array(models, np.int64)
    if len(seconds) < 2 or not (np.diff(seconds) >= 0).all() or seconds[0] < 0 or seconds[-1] <= 0:
        raise TraceError(f"{path}: got {len(seconds)} requests, expected two or more, in ascending order from 0 s on")
    return RequestTrace(seconds, indices, np.bincount(indices) / len(indices))


def _modulated(
    arrivals: NDArray[np.float64], rate: float, bursts: Bursts, generator: np.random.Generator
) -> NDArray[np.float64]:
    """Return the instants at which the intensity, integrated over time, passes each arrival."""
    busy = bursts.burst_seconds / (bursts.burst_seconds + bursts.quiet_seconds)
    quiet_rate = rate / (1 + busy * (bursts.factor - 1))
    rates, lengths = [quiet_rate, quiet_rate * bursts.factor], [bursts.quiet_seconds, bursts.burst_seconds]
    state = int(generator.random() < busy)
    instants, passed = [0.0], [0.0]
    while passed[-1] < arrivals[-1]:
        length = float(generator.exponential(lengths[state]))
        instants.append(instants[-1] + length)
        passed.append(passed[-1] + length * rates[state])
        state = 1 - state
    return np.interp(arrivals, passed, instants)
