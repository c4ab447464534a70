"""The compile flow: from a graph to subgraphs for the accelerator, and to the files that describe them."""
