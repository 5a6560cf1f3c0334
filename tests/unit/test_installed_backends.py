"""Backends of other distributions, found by what pip leaves of them in a folder of packages."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from anarchon import ConfigurationError, Scheduler, UnknownBackend
from anarchon.backends import open_backend
from anarchon.backends.memory import MemoryBackend
from anarchon.backends.memory_claims import MemoryClaimBackend
from anarchon.claim_store import ClaimBackend

MODULE = """
from anarchon.backends.memory import MemoryBackend
from anarchon.backends.memory_claims import MemoryClaimBackend
from anarchon import ConfigurationError

asked = []

class Slates(MemoryBackend):
    label = "slate://wall"

    def __init__(self, url):
        asked.append(url)
        super().__init__()

def without_leases(url):
    return MemoryClaimBackend()

def picky(url):
    raise ConfigurationError("has no chalk", option="chalk", fix="write ?chalk=white")

def careless(url):
    raise ValueError(f"cannot read {url}")

def absent(url):
    return None
"""

Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Leave a distribution in a folder of packages, with these entry points and this module."""
    monkeypatch.syspath_prepend(tmp_path)

    def installed(name: str, text: str = MODULE, **schemes: str) -> None:
        module = name.replace("-", "_")
        (tmp_path / f"{module}.py").write_text(text)
        monkeypatch.delitem(sys.modules, module, raising=False)
        about = tmp_path / f"{module}-1.0.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        points = "".join(f"{scheme} = {value}\n" for scheme, value in schemes.items())
        (about / "entry_points.txt").write_text(f"[anarchon.backends]\n{points}")

    return installed


def refused(url: str) -> ConfigurationError:
    with pytest.raises(ConfigurationError) as raised:
        open_backend(url)
    assert raised.value.option == "store"
    return raised.value


async def test_a_scheduler_runs_on_the_backend_of_another_distribution(install: Install) -> None:
    install("slate-store", slate="slate_store:Slates")

    scheduler = Scheduler("SLATE://me:hunter2@wall/?chalk=white")

    assert scheduler.store == "slate://wall"
    assert sys.modules["slate_store"].asked == ["SLATE://me:hunter2@wall/?chalk=white"]
    async with scheduler:
        assert scheduler.is_ready


def test_one_without_leases_may_be_another_distributions_too(install: Install) -> None:
    install("slate-store", slate="slate_store:without_leases")

    assert isinstance(open_backend("slate://wall"), ClaimBackend)


def test_it_is_not_imported_for_another_scheme(install: Install) -> None:
    install("slate-store", "raise AssertionError('it was imported')", slate="slate_store:Slates")

    assert isinstance(open_backend("memory://"), MemoryBackend)
    refused("chalk://wall")
    assert "slate_store" not in sys.modules


def test_none_of_our_schemes_can_be_replaced(install: Install) -> None:
    install("slate-store", memory="slate_store:without_leases")

    assert not isinstance(open_backend("memory://"), MemoryClaimBackend)


def test_its_scheme_is_named_beside_ours(install: Install) -> None:
    install("slate-store", slate="slate_store:Slates", memory="slate_store:Slates")

    error = refused("chalk://wall")

    assert isinstance(error, UnknownBackend)
    assert error.problem == "no backend answers to chalk://"
    assert error.fix is not None
    assert error.fix.startswith("use one of memory://, ")
    assert error.fix.endswith(", slate://")
    assert error.fix.count("memory://") == 1


@pytest.mark.parametrize(
    ("text", "value", "problem"),
    [
        ("import chalk", "slate_store:Slates", "ModuleNotFoundError: No module named 'chalk'"),
        ("1 / 0", "slate_store:Slates", "ZeroDivisionError: division by zero"),
        ("", "slate_store:Slates", "AttributeError: "),
        ("", "no_such_module:Slates", "ModuleNotFoundError: No module named 'no_such_module'"),
    ],
)
def test_one_that_cannot_be_loaded_is_told_with_its_distribution(
    install: Install, text: str, value: str, problem: str
) -> None:
    install("slate-store", text, slate=value)

    error = refused("slate://wall")

    assert error.problem.startswith(
        f"the backend for slate://, {value} of slate-store, cannot be loaded: {problem}"
    )
    assert error.fix == "mend or uninstall slate-store"
    assert error.__cause__ is not None


def test_one_that_refuses_its_settings_says_so_itself(install: Install) -> None:
    install("slate-store", slate="slate_store:picky")

    with pytest.raises(ConfigurationError) as raised:
        open_backend("slate://wall")

    assert str(raised.value) == "chalk: has no chalk; write ?chalk=white"


def test_one_that_fails_is_told_without_the_password_in_its_url(install: Install) -> None:
    install("slate-store", slate="slate_store:careless")

    error = refused("slate://me:hunter2@wall")

    assert error.problem == (
        "the backend for slate://, slate_store:careless of slate-store, failed:"
        " ValueError: cannot read slate://me:**@wall"
    )
    assert error.__cause__ is None
    assert error.__suppress_context__


def test_what_is_no_backend_is_told(install: Install) -> None:
    install("slate-store", slate="slate_store:absent")

    assert refused("slate://wall").problem.endswith("returned NoneType, which is no backend")


def test_two_that_answer_to_one_scheme_are_both_named(install: Install) -> None:
    install("slate-store", slate="slate_store:Slates")
    install("other-slates", slate="other_slates:Slates")

    error = refused("slate://wall")

    assert error.problem == "slate:// is answered to twice, by other-slates and slate-store"
    assert error.fix == "uninstall all but one of them"
