"""The suite for stores that keep leases; import all of ``suite`` to run it."""
