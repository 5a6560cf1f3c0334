"""The suites that every store is held to, for whoever writes a backend.

``anarchon_contract.leases`` is for stores that keep leases, ``anarchon_contract.claims`` for those
that only decide claims. A test module of yours imports all of one ``suite`` and says, in the
fixture ``open_harness``, how a store is opened and seen from behind::

    from anarchon_contract.claims.suite import *

    @pytest.fixture(scope="session")
    def open_harness():
        return open_mine  # an asynchronous context manager that yields a Harness

``pip install 'anarchon[contract]'`` brings what they need; they run with ``asyncio_mode = "auto"``.
Nothing of a running schedule may import this package.
"""
