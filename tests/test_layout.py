"""What holds for the whole tree, and no single test would notice."""

import ast
import json
import re
import subprocess
import sys
from importlib.metadata import requires
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = (
    "anarchon",
    "anarchon_beat",
    "anarchon_contract",
    "integrations/anarchon_celery",
    "integrations/anarchon_dramatiq",
)
MODULES = sorted(
    path.relative_to(ROOT).as_posix() for name in PACKAGES for path in (ROOT / name).rglob("*.py")
)
LINES_AT_MOST = 400
FORBIDDEN_NAMES = {"utils", "util", "helpers", "helper", "common", "manager", "misc"}

# Spelt in pieces, or this file would be the first to break the rule it checks.
REGISTRIES = (
    r"pypi\." + "org",
    r"pythonhosted\." + "org",
    r"(?:deb|security|ftp\.\w+)\.debian\." + "org",
    r"registry\.npm" + r"js\.org",
    r"crates\." + "io",
    r"docker\." + "io",
)
# Folders of one person's machine. A URL's path, as in sqlite:////var/lib, is none of them.
MACHINE_PATHS = (r"/wo" + r"rk/", r"/ho" + r"me/\w", r"/ro" + r"ot/\w", r"/Us" + r"ers/\w")


@pytest.mark.parametrize("module", MODULES)
def test_every_module_says_what_it_is_for(module: str) -> None:
    assert ast.get_docstring(ast.parse((ROOT / module).read_text()))


@pytest.mark.parametrize("module", MODULES)
def test_a_module_holds_one_idea_and_stays_short(module: str) -> None:
    assert len((ROOT / module).read_text().splitlines()) <= LINES_AT_MOST


@pytest.mark.parametrize("module", MODULES)
def test_a_module_is_named_after_its_idea(module: str) -> None:
    assert FORBIDDEN_NAMES.isdisjoint(Path(module).with_suffix("").parts)


@pytest.mark.parametrize("package", PACKAGES)
def test_every_package_is_marked_as_typed(package: str) -> None:
    assert (ROOT / package / "py.typed").exists()


def test_importing_the_engine_loads_croniter_at_most() -> None:
    allowed = _with_what_it_needs("croniter") | {"anarchon"}

    loaded = _imported_by("import anarchon")

    # the build's own settings belong to the standard library under a name of each machine
    foreign = loaded - allowed - sys.stdlib_module_names
    assert {name for name in foreign if not name.startswith("_sysconfigdata")} == set()


def test_no_file_names_a_registry_or_a_path_of_one_machine() -> None:
    pattern = re.compile("|".join((*REGISTRIES, *MACHINE_PATHS)))

    found = [
        f"{name}:{number}: {line.strip()}"
        for name, text in _tracked_texts()
        for number, line in enumerate(text.splitlines(), start=1)
        if pattern.search(line)
    ]

    assert found == []


def _with_what_it_needs(distribution: str) -> set[str]:
    """Return the top-level modules of a distribution and of all it requires."""
    modules = {distribution.replace("-", "_")}
    if distribution == "python-dateutil":
        modules.add("dateutil")
    for requirement in requires(distribution) or ():
        if "extra ==" not in requirement:
            name = re.match(r"[\w.-]+", requirement)
            assert name is not None
            modules |= _with_what_it_needs(name[0])
    return modules


def _imported_by(statement: str) -> set[str]:
    """Return the top-level modules that a statement loads in a fresh interpreter."""
    script = (
        "import json, sys\nbefore = set(sys.modules)\n"
        f"{statement}\n"
        "print(json.dumps(sorted({name.partition('.')[0] for name in set(sys.modules) - before})))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout))


def _tracked_texts() -> list[tuple[str, str]]:
    """Return name and text of every file that git tracks, or would be asked to track."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    if listed.returncode != 0:
        pytest.skip("not a git checkout, so nothing says which files belong to the project")
    names = sorted(name for name in listed.stdout.split("\0") if name)
    return [
        (name, (ROOT / name).read_text(errors="replace"))
        for name in names
        if (ROOT / name).is_file()
    ]
