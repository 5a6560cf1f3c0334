"""What `anarchon_contract` has in this module, on every store."""

from anarchon_contract.leases.test_start_deadlines import *  # noqa: F403
