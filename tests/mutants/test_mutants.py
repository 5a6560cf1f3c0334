"""What `make mutants` takes out is still there to be taken out."""

from collections import Counter
from pathlib import Path

import pytest

from tests.mutants.catalog import MUTANTS
from tests.mutants.mutant import Edit, Mutant, NotApplicable, without
from tests.mutants.trial import PROJECT, Project


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_finds_its_text_once_and_leaves_code_that_compiles(mutant: Mutant) -> None:
    for file, text in mutant.texts(PROJECT).items():
        assert text != (PROJECT / file).read_text()
        if file.endswith(".py"):
            compile(text, file, "exec")


def test_each_mutant_has_a_name_of_its_own() -> None:
    assert [name for name, count in Counter(m.name for m in MUTANTS).items() if count > 1] == []


def test_each_mutant_names_tests_that_exist() -> None:
    places = {word for mutant in MUTANTS for word in mutant.tests if word.startswith("tests/")}

    assert [place for place in places if not (PROJECT / place.split("::")[0]).exists()] == []


@pytest.mark.parametrize("text", ["", "twice and twice"])
def test_a_text_that_is_not_there_once_is_not_replaced(text: str) -> None:
    with pytest.raises(NotApplicable):
        Edit("some.py", "twice", "once").applied_to(text)


@pytest.fixture
def small(tmp_path: Path) -> Project:
    """A project whose first test fails the first time it is run."""
    (tmp_path / "limit.py").write_text("LOW, HIGH = 1, 2\n")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_limit.py").write_text(
        "from pathlib import Path\n"
        "from limit import LOW\n"
        "def test_by_chance():\n"
        "    been_here = Path('been here').exists()\n"
        "    Path('been here').touch()\n"
        "    assert been_here\n"
        "def test_low():\n"
        "    assert LOW == 1\n"
    )
    return Project(tmp_path)


def test_a_test_that_fails_by_chance_hides_none_that_notices(small: Project) -> None:
    verdict = small.test_without(without("low", "limit.py", "1,", "0,", "tests"))

    assert verdict.failed == "tests/test_limit.py::test_low"


def test_a_test_that_fails_by_chance_notices_nothing(small: Project) -> None:
    verdict = small.test_without(without("high", "limit.py", ", 2", ", 3", "tests"))

    assert (verdict.failed, verdict.passed) == (None, 1)
