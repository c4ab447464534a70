"""Plan of which tile computes what, when, and at which addresses its operands lie."""
