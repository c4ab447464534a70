"""Layouts of images: the decision which value lies in memory in which order of axes, and the pass that applies it to
models.
"""

from nnhal.layouts.channels_last import ChannelsLast, channels_last
from nnhal.layouts.simplification import simplified

__all__ = ["ChannelsLast", "channels_last", "simplified"]
