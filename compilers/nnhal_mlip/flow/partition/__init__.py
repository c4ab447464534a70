"""Partition: the operators that the accelerator takes, in subgraphs, and its reasons to leave the others."""
