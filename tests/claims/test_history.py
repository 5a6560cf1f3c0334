"""What `anarchon_contract` has in this module, on every store."""

from anarchon_contract.claims.test_history import *  # noqa: F403
