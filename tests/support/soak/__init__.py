"""A server under load: clients that behave, whose answers are all checked, and others that do what they should not."""

from tests.support.soak.bad_clients import misbehaving
from tests.support.soak.good_clients import Figures, begin_anew, run, slowest

__all__ = ["Figures", "begin_anew", "misbehaving", "run", "slowest"]
