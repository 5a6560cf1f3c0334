"""What of the scripts is sent to a server."""

import re

import pytest

from anarchon.backends.redis.scripts import BY_SHA, Script

SCRIPTS = pytest.mark.parametrize("script", BY_SHA.values(), ids=lambda script: script.sha[:8])


@SCRIPTS
def test_a_script_makes_no_function_that_it_does_not_use(script: Script) -> None:
    code = re.sub("--.*", "", script.source)
    made = re.findall(r"local function (\w+)", code)

    assert [name for name in made if len(re.findall(rf"\b{name}\b", code)) < 2] == []


@SCRIPTS
def test_a_script_looks_up_no_name_of_a_field(script: Script) -> None:
    assert re.findall(r"\[[A-Z_]+\]", script.source) == []


@SCRIPTS
def test_a_script_begins_with_its_flags(script: Script) -> None:
    assert script.source.startswith("#!lua")
