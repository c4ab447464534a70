"""The files of a subgraph, made from a partition, written, read and checked; and the options of the target."""
