"""The suite for stores that only decide claims; import all of ``suite`` to run it."""
