"""Random feeds and other sources are converted to the same results by columns and one by one."""

import pytest

from support.varied_conversions import KINDS, RUNS, difference

pytestmark = pytest.mark.slow

FEEDS, OTHERS, AT_ONCE = 1000, 100, 50


def differences(kind: str, seeds: range) -> list[str]:
    found = ((seed, difference(kind, seed)) for seed in seeds)
    return [f"{kind} {seed}: {text}" for seed, text in found if text]


@pytest.mark.parametrize("first", range(0, FEEDS, AT_ONCE))
def test_random_feeds_are_converted_as_by_the_parser(first: int) -> None:
    """With batches of all sizes, in whole files and in spans, with and without steps."""
    assert differences("feeds", range(first, first + AT_ONCE)) == []


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "feeds"])
def test_random_sources_are_converted_as_one_by_one(kind: str) -> None:
    assert differences(kind, range(OTHERS)) == []


@pytest.mark.parametrize("seed", range(2))
def test_random_feeds_are_converted_by_two_workers_as_by_the_parser(seed: int) -> None:
    assert difference(RUNS, seed) == ""
