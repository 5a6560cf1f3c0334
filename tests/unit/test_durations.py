import math
from datetime import timedelta
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anarchon.durations import describe, duration
from anarchon.errors import ConfigurationError


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("10s", 10),
        ("1h30m", 5400),
        ("250ms", 0.25),
        ("2d", 172_800),
        ("1w", 604_800),
        ("1w2d3h4m5s6ms", 788_645.006),
        ("0.5s", 0.5),
        ("1.5h", 5400),
        (" 1h 30m ", 5400),
        (10, 10),
        (0.25, 0.25),
        (timedelta(minutes=5), 300),
    ],
)
def test_a_duration_is_read_from_text_seconds_or_timedelta(value, seconds):
    assert duration(value, option="lease") == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "value",
    [
        "",
        "10",
        "s",
        "10 s",
        "10S",
        "10s5",
        "1h-5m",
        "-10s",
        "30m1h",
        "5m5m",
        "1e3s",
        "١s",
        ".5s",
        "0.0000001s",
        "1s" * 100,
        "9" * 60 + "w",
        True,
        None,
        math.nan,
        math.inf,
        -math.inf,
        1e300,
        10**400,
        Decimal(5),
        [5],
        b"10s",
    ],
)
def test_anything_else_is_refused_and_the_option_named(value):
    with pytest.raises(ConfigurationError) as refused:
        duration(value, option="lease")

    assert refused.value.option == "lease"
    assert '"1h30m"' in str(refused.value.fix)
    assert len(str(refused.value)) < 250


@pytest.mark.parametrize("value", [0, "0s", timedelta(0)])
def test_nothing_at_all_is_refused_unless_allowed(value):
    with pytest.raises(ConfigurationError, match="more than zero"):
        duration(value, option="lease")
    assert duration(value, option="jitter", allow_zero=True) == timedelta(0)


@pytest.mark.parametrize("value", [-1, -0.5, timedelta(seconds=-1)])
def test_less_than_nothing_is_refused_even_where_nothing_is_allowed(value):
    with pytest.raises(ConfigurationError, match="must be"):
        duration(value, option="jitter", allow_zero=True)


@pytest.mark.parametrize(
    ("length", "text"),
    [
        (timedelta(0), "0s"),
        (timedelta(seconds=10), "10s"),
        (timedelta(minutes=90), "1h30m"),
        (timedelta(milliseconds=250), "250ms"),
        (timedelta(microseconds=1500), "1.5ms"),
        (timedelta(seconds=61.5), "1m1.5s"),
        (timedelta(hours=36), "1d12h"),
        (timedelta(days=10), "10d"),
        (timedelta(days=14), "2w"),
        (timedelta(seconds=-90), "-1m30s"),
    ],
)
def test_a_duration_is_described_as_people_write_it(length, text):
    assert describe(length) == text


@settings(deadline=None)
@given(st.timedeltas(timedelta(microseconds=1), timedelta(days=100_000)))
def test_a_description_is_read_as_the_same_duration(length):
    assert duration(describe(length), option="lease") == length
