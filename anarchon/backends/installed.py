"""Backends of other distributions, found by their entry points.

An entry point of the group ``anarchon.backends`` has a URL's scheme for its name, and for its
value a callable that takes the URL and returns a backend. It is looked for where none of ours
answers to the scheme, so ours cannot be replaced, and imported only when that URL is opened.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import EntryPoint, entry_points

from anarchon.backends.urls import without_passwords
from anarchon.claim_store import AnyBackend
from anarchon.errors import AnarchonError, ConfigurationError

GROUP = "anarchon.backends"


def installed_schemes() -> Iterator[str]:
    """Yield the schemes that other distributions answer to."""
    for found in entry_points(group=GROUP):
        yield found.name.lower()


def open_installed(scheme: str, url: str) -> AnyBackend | None:
    """Return what the one distribution that answers to a scheme makes of a URL, if there is one.

    Raises ``ConfigurationError``, naming the distribution, where it cannot be used.
    """
    found = [each for each in entry_points(group=GROUP) if each.name.lower() == scheme]
    if not found:
        return None
    if len(found) > 1:
        named = " and ".join(sorted({_named(each) for each in found}))
        raise ConfigurationError(
            f"{scheme}:// is answered to twice, by {named}",
            option="store",
            fix="uninstall all but one of them",
        )
    (entry,) = found
    try:
        make = entry.load()
    except Exception as error:
        raise _broken(entry, f"cannot be loaded: {_told(error)}") from error
    try:
        backend = make(url)
    except AnarchonError:
        raise
    except Exception as error:
        # without its cause: what a stranger raises may quote the URL, and so a password
        raise _broken(entry, f"failed: {_told(error)}") from None
    if not callable(getattr(backend, "connect", None)) or not hasattr(backend, "label"):
        raise _broken(entry, f"returned {type(backend).__name__}, which is no backend")
    return backend  # type: ignore[no-any-return]  # it was looked at as far as can be


def _named(entry: EntryPoint) -> str:
    return "an unnamed distribution" if entry.dist is None else entry.dist.name


def _broken(entry: EntryPoint, problem: str) -> ConfigurationError:
    return ConfigurationError(
        f"the backend for {entry.name}://, {entry.value} of {_named(entry)}, {problem}",
        option="store",
        fix=f"mend or uninstall {_named(entry)}",
    )


def _told(error: Exception) -> str:
    said = " ".join(str(error).split())
    return without_passwords(f"{type(error).__name__}: {said}" if said else type(error).__name__)
