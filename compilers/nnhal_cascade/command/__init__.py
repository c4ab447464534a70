"""Text of ``nnhal cascade`` about a schedule: figures, tables, pictures. It starts no process."""
