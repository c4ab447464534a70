"""The ``nnhal`` command and its tools: testbeds, the demo, conformance, stress, benchmarks, reports and diagnosis."""
