from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from pipelines.serve.rehearsal import page
from pipelines.serve.rehearsal.backlog_history import History
from pipelines.serve.rehearsal.index import Index
from pipelines.serve.rehearsal.overview import Overview
from pipelines.serve.spool_writer import Spool
from schemas.delivery import Delivery, Door

POSTED = Delivery(ordinal=0, door=Door.FEED, path=None, bytes=0, datasource="s", feedtype="full")
FEED = (
    b'<gsafeed><group><record url="http://h/1" mimetype="text/plain"><content>a</content></record>'
    b"</group></gsafeed>"
)
GROUPS = Delivery(
    ordinal=0, door=Door.GROUPS, path=None, bytes=0, datasource="ldap", feedtype="full"
)
GROUPS_FEED = (
    b'<xmlgroups><membership><principal scope="GROUP">staff</principal><members/></membership>'
    b"</xmlgroups>"
)
NOON = 1_800_000_000.0


@pytest.fixture
def view(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> page.View:
    """Return what is shown of a spool with one feed, two minutes after its backlog was counted."""
    views: list[page.View] = []

    def keep(view: page.View) -> bytes:
        views.append(view)
        return b"<html>"

    monkeypatch.setattr(page, "render", keep)
    with Spool(tmp_path) as spool, Index(tmp_path / "index.db") as index:
        with spool.open_intake() as intake:
            intake.write(FEED)
            index.apply(spool.commit(POSTED, intake), tmp_path)
        with spool.open_intake() as intake:
            intake.write(GROUPS_FEED)
            index.apply(spool.commit(GROUPS, intake), tmp_path)
        moments = iter([NOON - 7200, NOON - 120, NOON + 1])
        history = History(iter([9, 3, 2]).__next__, now=moments.__next__)
        history.note()
        history.note()
        overview = Overview(
            index, spool, history=history, notices=("It rehearses.",), now=lambda: NOON
        )
        assert overview.show("http://h:19900") == b"<html>"
    return views[0]


def test_the_page_is_of_now(view: page.View) -> None:
    assert view.now == datetime(2027, 1, 15, 8, 0, tzinfo=UTC)


def test_the_backlog_is_shown_with_that_of_the_last_hour(view: page.View) -> None:
    assert (view.backlog, view.history) == (2, ((120.0, 3), (0, 2)))


def test_feeds_documents_and_groups_are_shown(view: page.View) -> None:
    assert [(one.ordinal, one.included) for one in view.feeds] == [(2, 1), (1, 1)]
    assert view.groups == 1
    assert [(one.datasource, one.documents) for one in view.totals] == [("s", 1)]


def test_the_disk_is_shown(view: page.View) -> None:
    assert view.spool_bytes == 210
    assert view.free_bytes > 0


def test_what_must_be_known_is_shown(view: page.View) -> None:
    assert (view.notices, view.url) == (("It rehearses.",), "http://h:19900")
    assert msgspec.structs.asdict(view)["title"] == "feedferry"
