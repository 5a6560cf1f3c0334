"""What `anarchon_contract` has in this module, on every store."""

from anarchon_contract.claims.test_names import *  # noqa: F403
