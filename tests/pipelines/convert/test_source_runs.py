"""Limits of groups: warned of at 90 %, refused above."""

import logging
from pathlib import Path

import pytest
from msgspec.structs import replace

from feedferry.pipelines.convert.inputs.source_runs import settings_of
from feedferry.pipelines.convert.publication.account_checks import check_groups
from feedferry.pipelines.options.convert_options import ConvertOptions
from feedferry.schemas.account import Chunk
from feedferry.schemas.errors import StoppedError
from feedferry.transforms.formats import JSONL, registered

FIX = "the limit of the group database of an appliance; leave out groups that no ACL names"


def chunk(
    *, members: int = 0, size: int = 0, datasource: str | None = None, origin: str | None = None
) -> Chunk:
    return Chunk(
        path="chunks/000001.xml",
        bytes=size,
        sha256="",
        records={},
        first_url="",
        last_url="",
        source="",
        span=0,
        members=members,
        datasource=datasource,
        origin=origin,
    )


def warning(members: str) -> str:
    return f"groups with {members} members; an appliance accepts at most 3,000,000"


@pytest.mark.parametrize(
    ("chunks", "warnings"),
    [
        ([chunk(members=2_000_000), chunk(members=1_000_000)], [warning("3,000,000")]),
        ([chunk(members=2_700_000)], [warning("2,700,000")]),
        ([chunk(members=2_699_999)], []),
        ([], []),
        (
            [
                chunk(members=2_000_000, datasource="g", origin="a.xml"),
                chunk(members=2_000_000, datasource="g", origin="b.xml"),
                chunk(members=700_000, datasource="h", origin="a.xml"),
            ],
            [warning("2,700,000")],
        ),
    ],
    ids=["limit", "90 %", "less", "none", "a later full feed replaces an earlier one"],
)
def test_groups_within_the_limits_are_accepted(
    chunks: list[Chunk], warnings: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "feedferry"):
        check_groups(chunks)
    assert caplog.messages == warnings


@pytest.mark.parametrize(
    ("chunks", "message"),
    [
        (
            [chunk(members=2_000_000), chunk(members=1_000_001)],
            f"groups with 3,000,001 members; expected at most 3,000,000, {FIX}",
        ),
        (
            [chunk(size=600_000_000), chunk(size=400_000_001)],
            f"groups with 1,000,000,001 bytes; expected at most 1,000,000,000, {FIX}",
        ),
        (
            [
                chunk(members=2_000_000, datasource="g", origin="a.xml"),
                chunk(members=2_000_000, datasource="g", origin="a.xml"),
            ],
            f"groups with 4,000,000 members; expected at most 3,000,000, {FIX}",
        ),
    ],
    ids=["members", "bytes", "chunks of one full feed"],
)
def test_groups_above_a_limit_are_refused(chunks: list[Chunk], message: str) -> None:
    with pytest.raises(StoppedError) as caught:
        check_groups(chunks)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("name", "stated", "expected"),
    [("avro", None, 943_718_400), ("small", None, 1000), ("small", 2000, 2000)],
)
def test_a_format_has_its_own_size_of_chunks(
    tmp_path: Path, name: str, stated: int | None, expected: int
) -> None:
    options = ConvertOptions(inputs=(), output="out", to_format=name, max_chunk_bytes=stated)
    with registered(replace(JSONL, name="small", chunk_bytes=1000)):
        assert settings_of(options, (), tmp_path, {}).max_chunk_bytes == expected
