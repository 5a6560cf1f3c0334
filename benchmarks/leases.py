"""The backends that are measured: those that keep leases."""

from anarchon.backends import open_backend
from anarchon.claim_store import ClaimBackend
from anarchon.store import Backend


def lease_backend(url: str) -> Backend:
    """Return the backend of a store URL."""
    backend = open_backend(url)
    assert not isinstance(backend, ClaimBackend)
    return backend
