"""Which part of its inputs an operator needs for a part of its output."""
