"""What anarchon costs, measured beside its limits and peers; it asserts nothing about time."""
