"""The tests of anarchon; a package, so that they can share what `tests.servers` offers."""
