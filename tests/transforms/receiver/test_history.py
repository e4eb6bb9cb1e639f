"""How the backlog changed over time."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from transforms.receiver.history import History


@pytest.fixture
def history(tmp_path: Path) -> Iterator[History]:
    with closing(History(tmp_path / "backlog.db")) as opened:
        yield opened


def test_counts_come_back_in_their_order(history: History) -> None:
    history.note(20.0, 7)
    history.note(10.0, 3)
    assert history.since(0.0) == [(10.0, 3), (20.0, 7)]


def test_only_what_was_counted_since_is_asked_for(history: History) -> None:
    history.note(10.0, 3)
    history.note(20.0, 7)
    history.note(30.0, 8)
    assert history.since(20.0) == [(20.0, 7), (30.0, 8)]


def test_a_count_that_stays_is_its_beginning_and_its_end(history: History) -> None:
    history.note(10.0, 3)
    history.note(20.0, 3)
    history.note(30.0, 3)
    history.note(40.0, 4)
    assert history.since(0.0) == [(10.0, 3), (30.0, 3), (40.0, 4)]


def test_what_is_older_than_a_week_goes(history: History) -> None:
    history.note(0.0, 1)
    history.note(604_801.0, 2)
    assert history.since(0.0) == [(604_801.0, 2)]


def test_counts_are_there_after_a_new_start(tmp_path: Path) -> None:
    with closing(History(tmp_path / "backlog.db")) as first:
        first.note(10.0, 3)
    with closing(History(tmp_path / "backlog.db")) as second:
        assert second.since(0.0) == [(10.0, 3)]
