"""A server under load: clients that behave, all of whose answers are checked, and clients that misbehave."""

from tests.support.soak.bad_clients import misbehaving
from tests.support.soak.good_clients import Figures, reload_models, run

__all__ = ["Figures", "misbehaving", "reload_models", "run"]
