"""The conditions under which ethos_n supports operations, one module for each family."""
