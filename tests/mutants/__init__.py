"""Removes one protection at a time and shows that some test notices: `python -m tests.mutants`.

A test that cannot fail proves nothing, and nobody sees which ones cannot. Each mutant here takes
one protection out of a copy of the project and runs the tests that ought to fail for it. One
that survives is a protection that nobody tests, or one that is not needed.
"""
