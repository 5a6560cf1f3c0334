"""All tests and fixtures of the suite: ``from anarchon_contract.leases.suite import *``."""

# ruff: noqa: F403
from anarchon_contract.leases.fixtures import *
from anarchon_contract.leases.test_batches import *
from anarchon_contract.leases.test_beginnings import *
from anarchon_contract.leases.test_claims import *
from anarchon_contract.leases.test_connections import *
from anarchon_contract.leases.test_edges import *
from anarchon_contract.leases.test_endings import *
from anarchon_contract.leases.test_history import *
from anarchon_contract.leases.test_model import *
from anarchon_contract.leases.test_moments import *
from anarchon_contract.leases.test_names import *
from anarchon_contract.leases.test_newest import *
from anarchon_contract.leases.test_overlap import *
from anarchon_contract.leases.test_pruning import *
from anarchon_contract.leases.test_races import *
from anarchon_contract.leases.test_registration import *
from anarchon_contract.leases.test_start_deadlines import *
from anarchon_contract.leases.test_takeovers import *
