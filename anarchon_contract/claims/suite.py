"""All tests and fixtures of the suite: ``from anarchon_contract.claims.suite import *``."""

# ruff: noqa: F403
from anarchon_contract.claims.fixtures import *
from anarchon_contract.claims.test_batches import *
from anarchon_contract.claims.test_connections import *
from anarchon_contract.claims.test_deciding import *
from anarchon_contract.claims.test_history import *
from anarchon_contract.claims.test_model import *
from anarchon_contract.claims.test_names import *
from anarchon_contract.claims.test_races import *
