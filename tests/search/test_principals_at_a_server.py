"""Nights of a job with a real server: principals get other names, and a parent arrives late."""

from pathlib import Path

import pytest

from support.mapped_jobs import (
    CHILD,
    FEED,
    FOLDER,
    HOST,
    USERS,
    MappedJob,
    acl,
    document,
    write_feed,
)
from support.search_servers import SearchServer

pytestmark = pytest.mark.slow

WAITING = document("w", acl(more=f' inherit-from="{HOST}late/"'))
LATE = FOLDER.replace("/d/", "/late/")


def test_each_night_shows_documents_to_those_whom_the_last_table_names(
    tmp_path: Path, server: SearchServer
) -> None:
    job = MappedJob(tmp_path, server.url, FEED, unmapped="reject")
    job.map(one="ann", two="bob")
    parts = document("x", acl("one")), document("two", acl("two")), FOLDER, CHILD, WAITING
    write_feed(tmp_path, *parts)
    assert job.night() == 0
    assert job.readers() == {"d/y": ["ann"], "two": ["bob"], "x": ["ann"]}
    job.map(one="eve", two="bob")
    write_feed(tmp_path, LATE)
    assert job.night() == 0
    assert job.readers() == {"d/y": ["eve"], "two": ["bob"], "w": ["eve"], "x": ["eve"]}
    job.map(two="bob")
    write_feed(tmp_path, document("z"))
    assert job.night() == 1
    assert job.readers() == {"two": ["bob"], "z": [*USERS]}
    job.map(one="ann", two="bob")
    assert job.night() == 0
    assert job.readers() == {
        "d/y": ["ann"],
        "two": ["bob"],
        "w": ["ann"],
        "x": ["ann"],
        "z": [*USERS],
    }
