"""The files of a subgraph, made from a partition, written, read and checked; and the options of the target.

The form is that of TVM 0.19 (``src/relay/backend/contrib/mrvl/codegen.cc``): a reader of that form that skips the key
``nnhal`` reads these files. They deviate from what TVM writes in these points:

- ``data_layout`` of an input is the layout in which it arrives, and empty if it has neither rank 4 nor 2; TVM writes
  NCHW. The same holds for layers that only change shapes.
- Vectors of any length are whole; TVM keeps the first number of those with more than four.
- A constant that several layers read in one shape is there once, under its first name; TVM's names drift apart.
- ``dtype``, ``min`` and ``max`` of a constant are those of its type; TVM takes all for float32.
- The padding of a layer is its own plus that of a pad before it; TVM drops its own. An average that counts a pad says
  ``count_include_pad``, and what TVM cannot say of padding is in ``zero_padding`` of the extension.
- Operands of a sum get ones in front before they get ones behind, so that they broadcast as they should.
- Fields of a concatenation that are constants are in ``constant_fields`` of the extension; TVM has no place for them.
- Nodes and constants are two files from the start, so that a name may have any character.
- ``activation_type`` may be ``clip``, and there are layers that TVM does not have: ``layers.EXTENDED_LAYERS``.
"""
