"""Cases: models with inputs and what has to come of them, run on a device, with one report.

Vectors and recordings are sources of cases; a comparison layer by layer (``nnhal_tools.diff``) has a report of the same
kind.
"""
