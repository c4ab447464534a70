"""From the files of a subgraph to a binary: layers, numbers, tiles, memory."""
