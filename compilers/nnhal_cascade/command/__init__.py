"""What ``nnhal cascade`` tells of a schedule: figures, tables, pictures. It starts no process."""
