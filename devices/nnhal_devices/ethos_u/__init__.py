"""The driver of an NPU of the Ethos-U class, whose compiler cascades."""
