"""How the backlog changed of late."""

from pipelines.serve.rehearsal import backlog_history
from pipelines.serve.rehearsal.backlog_history import History


def noted(*notes: tuple[float, int]) -> History:
    """Return a history of counts that were taken at these moments."""
    at, count = zip(*notes, strict=True)
    found = History(iter(count).__next__, now=iter(at).__next__)
    assert [found.note() for _ in notes] == list(count)
    return found


def test_what_is_noted_is_told() -> None:
    assert History(lambda: 7).note() == 7


def test_counts_come_back_in_their_order() -> None:
    assert noted((10.0, 3), (20.0, 7)).since(0.0) == [(10.0, 3), (20.0, 7)]


def test_only_what_was_counted_since_is_asked_for() -> None:
    found = noted((10.0, 3), (20.0, 7), (30.0, 8))
    assert found.since(20.0) == [(20.0, 7), (30.0, 8)]


def test_a_count_that_stays_is_its_beginning_and_its_end() -> None:
    found = noted((10.0, 3), (20.0, 3), (30.0, 3), (40.0, 4))
    assert found.since(0.0) == [(10.0, 3), (30.0, 3), (40.0, 4)]


def test_a_clock_that_is_put_back_does_no_harm() -> None:
    assert noted((20.0, 7), (10.0, 3)).since(15.0) == [(20.0, 7)]


def test_so_many_are_kept() -> None:
    found = noted(*((float(at), at) for at in range(backlog_history.KEPT + 1)))
    assert found.since(0.0)[0] == (1.0, 1)
