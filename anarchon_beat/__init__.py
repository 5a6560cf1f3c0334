"""The command `anarchon-beat`.

This package may import the integrations and the engine, and nothing of theirs may import it.
This module imports nothing: a liveness probe pays for every import, many times a minute.
"""
