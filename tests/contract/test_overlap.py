"""What `anarchon_contract` has in this module, on every store."""

from anarchon_contract.leases.test_overlap import *  # noqa: F403
