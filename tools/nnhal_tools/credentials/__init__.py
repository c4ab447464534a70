"""Tokens, an admin key and certificates for a testbed, made where there are none.

They lie in three folders, so that each process is given what it needs and nothing else.
"""
