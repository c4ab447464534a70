"""Which operators the accelerator takes, in which subgraphs, and why it leaves the others."""
