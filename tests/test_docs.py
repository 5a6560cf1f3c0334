"""What README and documentation say, held against the code; `tests/documents.py` reads them."""

import ast
import inspect
import os
import re
import shlex
import signal
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import click
import pytest
from celery.bin.celery import celery as celery_command

import anarchon
import anarchon_dramatiq
from anarchon import (
    ConfigurationError,
    EventKind,
    JobOptions,
    RunState,
    Scheduler,
    backends,
    errors,
)
from anarchon.backends import open_backend
from anarchon.durations import duration
from anarchon_beat import mistakes
from anarchon_celery import own_options
from tests.documents import (
    BLOCKS,
    DOCS,
    PAGES,
    ROOT,
    SNIPPETS,
    Block,
    marked,
    names_in,
    rows_of,
    table,
)

BIN = Path(sys.executable).parent
INTEGRATIONS = ("anarchon_celery", "anarchon_dramatiq")
COMMANDS = ("", "run", "next", "history", "check", "health", "demo")

# ---------------------------------------------------------------- Python


def tree_of(snippet: Block) -> ast.Module:
    flags = ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    tree = compile(snippet.text, str(snippet), "exec", flags=flags)
    assert isinstance(tree, ast.Module)
    return tree


@pytest.mark.parametrize("snippet", SNIPPETS, ids=str)
def test_every_snippet_is_python(snippet: Block) -> None:
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    compile(snippet.text, str(snippet), "exec", flags=flags, dont_inherit=True)


@pytest.mark.parametrize("snippet", SNIPPETS, ids=str)
def test_every_name_that_a_snippet_imports_from_us_is_there(snippet: Block) -> None:
    for node in ast.walk(tree_of(snippet)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("anarchon"):
            module = import_module(node.module or "")
            named = [a.name for a in node.names if a.name != "*"]
            assert [name for name in named if not hasattr(module, name)] == []


@pytest.mark.parametrize("snippet", SNIPPETS, ids=str)
def test_every_option_that_a_snippet_gives_to_a_job_exists(snippet: Block) -> None:
    declaring = {"every", "cron", "at", "add"}
    for node in ast.walk(tree_of(snippet)):
        if not isinstance(node, ast.Call):
            continue
        name = getattr(node.func, "attr", None) or getattr(node.func, "id", None)
        if name in declaring:
            known = set(inspect.signature(getattr(Scheduler, name)).parameters)
            known |= set(JobOptions.__annotations__)
            if "from anarchon_dramatiq import" in snippet.text:
                known = set(inspect.signature(getattr(anarchon_dramatiq, name)).parameters)
                known |= set(JobOptions.__annotations__)
            assert {keyword.arg for keyword in node.keywords} - known == set()


@pytest.mark.cluster
@pytest.mark.parametrize("snippet", [b for b in SNIPPETS if b.mark == "run"], ids=str)
def test_a_marked_snippet_runs(snippet: Block, tmp_path: Path) -> None:
    for file in marked("file"):
        if file.page == snippet.page:
            (tmp_path / str(file.about)).write_text(file.text)
    script = tmp_path / "snippet.py"
    script.write_text(snippet.text)
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    until = re.fullmatch(r'until "(.+)"', snippet.about) if snippet.about else None
    output: list[str] = []

    with subprocess.Popen(
        [sys.executable, "-W", "error", script.name],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                output.append(line)
                if until is not None and until[1] in line:
                    process.send_signal(signal.SIGTERM)
            code = process.wait()
        finally:
            process.kill()

    assert code == 0, "".join(output)
    assert until is None or any(until[1] in line for line in output)


# ---------------------------------------------------------------- commands


def commands() -> Iterator[tuple[str, str]]:
    """Yield where a command stands, and the command: in consoles, manifests and the text."""
    for block in BLOCKS:
        if block.language in ("console", "sh", "bash", "shell"):
            for line in block.text.splitlines():
                if line.startswith("$ "):
                    yield str(block), line[2:]
        if block.language == "yaml":
            for listed in re.findall(r"\[(\"[^\]]+)\]", block.text):
                yield str(block), shlex.join(ast.literal_eval(f"[{listed}]"))
    for path in PAGES:
        text = re.sub(r"```.*?```", "", path.read_text(), flags=re.DOTALL)
        for span in re.findall(r"`((?:anarchon-beat|make|pip install) [^`]+)`", text):
            yield path.relative_to(ROOT).as_posix(), span


def written(program: str) -> Iterator[tuple[str, list[str]]]:
    for where, command in commands():
        words = shlex.split(command.partition(" #")[0])
        while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
            words.pop(0)
        if words and Path(words[0]).name == program:
            yield where, words[1:]


@cache
def help_of(command: str) -> dict[str, bool]:
    """Return the options that a command's help names, and whether each takes a value."""
    words = [str(BIN / "anarchon-beat"), *([command] if command else []), "--help"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    options: dict[str, bool] = {}
    for line in re.findall(r"^ {2}(-.*)$", done.stdout, flags=re.MULTILINE):
        declared = re.split(r" {2,}", line)[0].replace(",", " ").split()
        names = [word for word in declared if word.startswith("-")]
        options.update(dict.fromkeys(names, len(names) < len(declared)))
    return options


@pytest.mark.cluster
@pytest.mark.parametrize(("where", "words"), list(written("anarchon-beat")))
def test_every_anarchon_beat_line_could_be_typed(where: str, words: list[str]) -> None:
    command, rest = "", list(words)
    while rest:
        word = rest.pop(0)
        if word.startswith("-"):
            options = help_of(command)
            assert word in options, f"{where}: {command or 'anarchon-beat'} has no {word}"
            if options[word] and rest:
                rest.pop(0)
        elif word not in ("APP", "[OPTIONS]", "[COMMAND]"):
            assert command == "", f"{where}: {word!r} after {command}"
            assert word in COMMANDS, f"{where}: no command {word}"
            command = word


def options_of(command: click.Command) -> dict[str, bool]:
    """Return the options of one of Celery's commands, and whether each takes a value."""
    options = [one for one in command.params if isinstance(one, click.Option)]
    return {name: not one.is_flag for one in options for name in (*one.opts, *one.secondary_opts)}


@pytest.mark.parametrize(("where", "words"), list(written("celery")))
def test_every_celery_line_could_be_typed(where: str, words: list[str]) -> None:
    command: click.Command = celery_command
    rest = list(words)
    # what follows our own command there is told to be so by its own tests
    while rest and command.name != "anarchon":
        word = rest.pop(0)
        if word.startswith("-"):
            options = options_of(command)
            assert word in options, f"{where}: {command.name} has no {word}"
            if options[word]:
                rest.pop(0)
        else:
            assert isinstance(command, click.Group), f"{where}: {word!r} after {command.name}"
            assert word in command.commands, f"{where}: no command {word}"
            command = command.commands[word]


@pytest.mark.cluster
@pytest.mark.parametrize("block", marked("options"), ids=str)
def test_a_table_of_options_names_those_that_the_help_names(block: Block) -> None:
    assert block.about is not None
    written_down = {name for row in rows_of(block) for name in names_in(row[0])}

    assert written_down == set(help_of(block.about.removeprefix("anarchon-beat").strip()))


def test_every_make_target_that_is_named_exists() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))

    named = {word for _, words in written("make") for word in words if "=" not in word}

    assert named
    assert named - targets == set()


def test_every_extra_that_is_installed_exists() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = {
        extra
        for _, words in written("pip")
        for word in words
        if (found := re.fullmatch(r"anarchon\[(.+)\]", word))
        for extra in found[1].split(",")
    }

    assert named
    assert named - set(project["optional-dependencies"]) == set()


def test_the_table_of_exit_codes_names_all_of_them() -> None:
    text = (DOCS / "reference" / "command.md").read_text().partition("## Exit codes")[2]
    told = {int(code) for code in re.findall(r"^\| (\d+) \|", text, re.MULTILINE)}

    codes = {v for k, v in vars(mistakes).items() if k.isupper() and isinstance(v, int)}

    assert told == codes | {0}


# ---------------------------------------------------------------- tables


def test_the_table_of_states_is_complete() -> None:
    assert set(table("RunState")) == set(RunState)


def test_the_table_of_events_is_complete() -> None:
    assert set(table("EventKind")) == set(EventKind)


def test_the_table_of_errors_is_complete() -> None:
    classes = {
        name: cls for name, cls in vars(errors).items() if inspect.isclass(cls) and is_ours(cls)
    }
    written_down = {name: names_in(cells[0]) for name, cells in table("errors").items()}

    assert written_down == {
        name: [base.__name__ for base in cls.__bases__] for name, cls in classes.items()
    }


def is_ours(cls: type) -> bool:
    return cls.__module__ == errors.__name__


def test_the_table_of_entry_options_tells_those_beside_a_jobs() -> None:
    beside = [name for name in own_options.KNOWN if name not in JobOptions.__annotations__]

    assert list(table("entry options")) == beside


def test_the_table_of_job_options_tells_names_and_defaults() -> None:
    job = Scheduler("memory://").add("job", anarchon.Every("1d"), lambda ctx: None)
    written_down = {name: cells[0] for name, cells in table("JobOptions").items()}

    assert list(written_down) == list(JobOptions.__annotations__)
    assert (written_down.pop("max_late"), job.max_late) == ("as `catch_up`", job.catch_up)
    assert (written_down.pop("heartbeat"), job.heartbeat) == ("a third of `lease`", job.lease / 3)
    assert written_down.pop("on_store_error") == "by `overlap`"
    tracked = Scheduler("memory://").add("job", anarchon.Every("1d"), Sender(), track=True)
    start_within = ast.literal_eval(names_in(written_down.pop("start_within"))[0])
    assert same_default(start_within, tracked.start_within)
    for name, default in written_down.items():
        assert same_default(ast.literal_eval(names_in(default)[0]), getattr(job, name)), name


class Sender:
    task, sends_to = "proj.send", "nowhere"

    def publish(self, ctx: anarchon.RunContext) -> str:
        return ""


def test_the_table_of_scheduler_options_tells_names_and_defaults() -> None:
    parameters = inspect.signature(Scheduler).parameters
    written_down = {name: cells[0] for name, cells in table("Scheduler").items()}

    assert list(written_down) == [name for name in parameters if name != "defaults"]
    for name, default in written_down.items():
        if names_in(default):
            told = ast.literal_eval(names_in(default)[0])
            assert same_default(told, parameters[name].default), name
        else:
            assert parameters[name].default is None


def same_default(told: object, default: object) -> bool:
    if isinstance(default, timedelta):
        return duration(told, option="told") == default  # type: ignore[arg-type]
    return told == default


@pytest.mark.parametrize("block", marked("rights"), ids=str)
def test_the_rights_are_those_that_the_backend_is_tested_with(block: Block) -> None:
    assert block.about is not None
    _, _, after = (import_module(block.about).__doc__ or "").partition("::\n\n")

    assert block.text.split() == after.partition("\n\n")[0].split()


def test_the_table_of_stores_tells_every_guarantee_of_every_kind_of_store() -> None:
    (block,) = marked("table", "stores")
    head = [cell.strip() for cell in block.text.splitlines()[0].strip("|").split("|")]
    told = {url.partition("://")[0] for row in rows_of(block) for url in names_in(row[0])}
    schemes: dict[str, set[str]] = {}
    for scheme, (module, *_) in backends._SCHEMES.items():
        schemes.setdefault(module, set()).add(scheme)

    assert head == ["store", *guarantees()]
    assert {len(row) for row in rows_of(block)} == {len(head)}
    assert [module for module, known in schemes.items() if not known & told] == []


def test_the_page_on_backends_names_every_scheme() -> None:
    with pytest.raises(ConfigurationError) as refused:
        open_backend("nothing://")
    assert refused.value.fix is not None
    page = (DOCS / "backends.md").read_text()

    assert [
        scheme for scheme in re.findall(r"\w+://", refused.value.fix) if scheme not in page
    ] == []


# ---------------------------------------------------------------- API


def api_of(package: str) -> str:
    """Return the sections about a package: each is about `anarchon` if it names no other."""
    found = []
    for section in re.split(r"^(?=## )", (DOCS / "reference" / "api.md").read_text(), flags=re.M):
        named = re.search(r"^From `(anarchon_\w+)`\.", section, re.M)
        if package == (named[1] if named else "anarchon"):
            found.append(section)
    return "".join(found)


def signatures() -> list[tuple[str, str]]:
    return [
        (package, written_down)
        for package in ("anarchon", *INTEGRATIONS)
        for written_down in re.findall(r"^### `([\w.]+\(.*\))`$", api_of(package), re.M)
    ]


@pytest.mark.parametrize(("package", "written_down"), signatures())
def test_a_signature_on_the_api_page_is_the_one_in_the_code(
    package: str, written_down: str
) -> None:
    name = written_down.partition("(")[0]
    found: Any = import_module(package)
    for part in name.split("."):
        found = getattr(found, part)
    told = signature_of(written_down)

    real = [p for p in inspect.signature(found).parameters.values() if p.name != "self"]

    assert [(p.name, p.kind) for p in told] == [(p.name, p.kind) for p in real]
    for ours, theirs in zip(told, real, strict=True):
        assert same_default(ours.default, theirs.default), ours.name


def signature_of(written_down: str) -> list[inspect.Parameter]:
    arguments = written_down.partition("(")[2]
    scope: dict[str, Callable[..., object]] = {}
    exec(f"def told({arguments}: ...", scope)
    return list(inspect.signature(scope["told"]).parameters.values())


def test_every_public_name_is_in_the_reference() -> None:
    text = (DOCS / "reference" / "api.md").read_text() + (
        DOCS / "reference" / "errors.md"
    ).read_text()

    assert [name for name in anarchon.__all__ if not re.search(rf"`{name}\b", text)] == []


@pytest.mark.parametrize("package", INTEGRATIONS)
def test_every_public_name_of_an_integration_is_in_the_reference(package: str) -> None:
    text, names = api_of(package), import_module(package).__all__

    assert [name for name in names if not re.search(rf"`{name}\b", text)] == []


def test_every_public_member_of_the_scheduler_is_in_the_reference() -> None:
    text = (DOCS / "reference" / "api.md").read_text()
    members = [name for name in dir(Scheduler) if not name.startswith("_")]

    assert [m for m in members if not re.search(rf"`(Scheduler\.)?{m}\b", text)] == []


# ---------------------------------------------------------------- guarantees and links


def guarantees() -> list[str]:
    return re.findall(r"^## (G\d+)$", (DOCS / "guarantees.md").read_text(), re.MULTILINE)


def cited_in_tests() -> set[str]:
    """Return what the docstrings of tests name."""
    # not by ast: CPython 3.11 may raise SystemError there while another thread parses
    return {
        guarantee
        for path in (ROOT / "tests").rglob("*.py")
        for docstring in re.findall(r'^ *"""(.*?)"""', path.read_text(), re.M | re.S)
        for guarantee in re.findall(r"\bG\d+\b", docstring)
    }


def test_the_guarantees_are_numbered_without_a_gap() -> None:
    numbers = guarantees()

    assert numbers == [f"G{number}" for number in range(1, len(numbers) + 1)]
    assert re.findall(r"^\| (G\d+) \|", (ROOT / "README.md").read_text(), re.M) == numbers


def test_every_guarantee_that_a_test_or_a_page_cites_exists() -> None:
    on_pages = {g for path in PAGES for g in re.findall(r"\bG\d+\b", path.read_text())}

    assert (cited_in_tests() | on_pages) - set(guarantees()) == set()


def test_every_guarantee_is_cited_by_a_test() -> None:
    assert set(guarantees()) - cited_in_tests() == set()


@pytest.mark.parametrize("path", [p for p in PAGES if DOCS not in p.parents], ids=lambda p: p.name)
def test_every_link_to_a_file_leads_to_one(path: Path) -> None:
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", path.read_text())

    assert [link for link in links if not (path.parent / link).exists()] == []


@pytest.mark.cluster
def test_the_documentation_builds_without_a_warning(tmp_path: Path) -> None:
    options = ["-q", "-W", "--keep-going", "-n", "-b", "dummy"]
    build = [str(BIN / "sphinx-build"), *options, str(DOCS), str(tmp_path)]

    done = subprocess.run(build, capture_output=True, text=True)

    assert done.returncode == 0, done.stderr
