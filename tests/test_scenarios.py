"""The page of scenarios: each has one fate, and every test that it names is there."""

import ast
import re
from collections import Counter
from functools import cache

import pytest

from tests.documents import BLOCKS, ROOT, Block, names_in, rows_of

PAGE = "docs/reference/scenarios.md"
GROUPS = {"D": 40, "L": 24, "F": 14, "T": 10, "W": 9, "B": 7, "V": 4}
TABLES = [block for block in BLOCKS if block.page == PAGE and block.language == "table"]
ROWS = [row for block in TABLES for row in rows_of(block)]
FATE = re.compile(
    r"(?P<tests>`[^`]+`(, `[^`]+`)*)|not applicable: .{20,}|with .+ \(not built yet\)"
)


def test_every_scenario_is_there_once() -> None:
    expected = [f"{group}{n:02}" for group, count in GROUPS.items() for n in range(1, count + 1)]

    assert Counter(row[0] for row in ROWS) == Counter(expected)
    assert len(ROWS) == 108


@pytest.mark.parametrize("block", TABLES, ids=str)
def test_the_scenarios_of_a_table_are_in_order_and_complete(block: Block) -> None:
    rows = rows_of(block)

    assert rows == sorted(rows, key=lambda row: (list(GROUPS).index(row[0][0]), row[0]))
    assert {len(row) for row in rows} == {5}
    assert all(cell for row in rows for cell in row)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_a_scenario_has_one_fate_and_the_tests_it_names_exist(row: list[str]) -> None:
    fate = FATE.fullmatch(row[4])

    assert fate is not None, row[4]
    if fate["tests"] is None:
        return
    named = names_in(row[4])
    assert len(named) == len(set(named))
    for one in named:
        path, _, test = one.partition("::")
        assert test in defined_in(path), one


@cache
def defined_in(path: str) -> frozenset[str]:
    """Return the tests of a module, which is read and not imported."""
    tree = ast.parse((ROOT / path).read_text())
    places = [("", tree.body)]
    places += [(f"{c.name}::", c.body) for c in tree.body if isinstance(c, ast.ClassDef)]
    return frozenset(
        f"{place}{node.name}"
        for place, body in places
        for node in body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
    )


def test_every_test_of_a_scenario_is_named_on_the_page() -> None:
    """Whoever adds one says of which scenario it is."""
    named = {name for row in ROWS for name in names_in(row[4])}
    files = sorted((ROOT / "tests" / "scenarios").glob("test_*.py"))
    assert files

    for file in files:
        path = file.relative_to(ROOT).as_posix()
        assert {f"{path}::{test}" for test in defined_in(path)} - named == set()
