"""The layers that tiles compute, as read from the files of a subgraph."""
