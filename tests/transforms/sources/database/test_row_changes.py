"""Rows with a state: batches and signatures change neither what is sent nor the state."""

import sqlite3
import tempfile
from base64 import b64decode
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from secrets import token_hex
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from feedferry.schemas.reject import Filtered
from feedferry.schemas.sent_document import SentDocument, StateChange
from feedferry.schemas.span import Span
from feedferry.transforms.formats.base import ReadOptions
from feedferry.transforms.formats.fast_path.columns.record_batch import RecordBatch
from feedferry.transforms.rules.adapt import Target
from feedferry.transforms.sources.base import SourceRun
from feedferry.transforms.sources.database.changes.deletions import advance_state
from feedferry.transforms.sources.database.changes.row_changes import RowSignatures
from feedferry.transforms.sources.database.changes.watermark import encode_mark
from feedferry.transforms.sources.database.connection.dialects import INLINE_BYTES
from feedferry.transforms.sources.database.mapping.columns import ColumnReference, Page
from feedferry.transforms.sources.database.mapping.row_mapping import (
    DATABASE,
    AclSource,
    ActionColumn,
    ContentSource,
    IncrementalReading,
    MetadataColumn,
    RowMapping,
)
from feedferry.transforms.sources.database.plan import RowPlan, plan_rows
from feedferry.transforms.sources.database.read import read_rows
from feedferry.transforms.sources.database.records import row_batches
from feedferry.transforms.sources.database.tables.table import open_table
from feedferry.transforms.storage.state import StateHead, open_state, update_state
from support.batches import SIZES, Conversion, span_conversion
from support.database_runs import USUAL

VALUES: dict[str, tuple[object, ...]] = {
    "link": tuple(f"http://www.example.com/{name}" for name in "abc"),
    "title": ("a", "b & c", "\u6771\u4eac", None),
    "body": ("text", "<p>a & b</p>", "x" * 700, None),
    "users": ("anna, ben", "anna", None, "c,d,e,f"),
    "at": ("2026-01-31 08:30:00", "2026-01-31T08:30:00Z", None),
    "op": ("I", "U", None),
}
HOSTILE: dict[str, tuple[object, ...]] = {
    "link": ("http://intranet/a", "no url", None, "http://www.example.com/\u00fc a"),
    "title": ("a\x07b", 3, 3.0, "3", b"3", b"\xff", "]]>", ""),
    "body": ("", b"\xff\x00", "x" * (INLINE_BYTES + 1)),
    "users": ('"x", y', ""),
    "at": ("yesterday",),
    "op": ("D",),
}
KEYS = (*range(1, 30), 'a"b', "Z\u00fcrich", "1", None)
MAPPINGS: dict[str, dict[str, Any]] = {
    "compared": {"incremental": IncrementalReading(deletes="compare")},
    "dated": {
        "incremental": IncrementalReading(timestamp="stamp", lag_seconds=0, deletes="compare"),
        "modified": "at",
    },
    "since": {
        "incremental": IncrementalReading(timestamp="stamp", lag_seconds=0),
        "action": ActionColumn(column="op", delete=("D",)),
    },
}
TARGETS = {"gsa-feed": "d", "jsonl": None, "thunderstone": None}
Row = dict[str, object]


class Night(NamedTuple):
    """The rows that change, are new or have new values, and the keys that are deleted."""

    changed: dict[object, Row]
    deleted: set[object]
    is_refresh: bool


@st.composite
def nights(draw: st.DrawFn) -> list[Night]:
    """Nights of a table with few kinds of rows, of which most stay as they are."""
    usual = {name: draw(st.sampled_from(values)) for name, values in VALUES.items()}
    keys = draw(st.sets(st.sampled_from(KEYS), min_size=1))
    rarely = draw(st.sampled_from((5, 20, 100)))

    def row(key: object) -> Row:
        values = usual | {"link": f"http://www.example.com/{key}"}
        for name, choices in VALUES.items():
            luck = draw(st.integers(0, rarely))
            if luck < 2:
                values[name] = draw(st.sampled_from(choices if luck else HOSTILE[name]))
        return values

    first = Night({key: row(key) for key in sorted(keys, key=str)}, set(), False)
    later = [
        Night(
            {
                key: row(key)
                for key in sorted(draw(st.sets(st.sampled_from(KEYS), max_size=12)), key=str)
            },
            draw(st.sets(st.sampled_from(KEYS), max_size=2)),
            not draw(st.integers(0, 7)),
        )
        for _ in range(draw(st.integers(1, 3)))
    ]
    return [first, *later]


@pytest.fixture(autouse=True, scope="module")
def states_without_secrets() -> Iterator[None]:
    """Histories of one table have the same signatures, so that their states can be compared."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("feedferry.transforms.sources.database.plan.token_hex", lambda _size: "")
        yield


class History:
    """Successive runs of one size of batches, with their state."""

    def __init__(self, folder: Path, name: str, mapping: RowMapping) -> None:
        self.folder = folder / name
        self.folder.mkdir()
        self.state = self.folder / "state"
        self.mapping = mapping
        self.runs = 0

    def run(  # noqa: PLR0913 # the options of a run
        self,
        target: Target,
        *,
        batch_records: int,
        is_refresh: bool = False,
        chunk: int = 1 << 22,
        span_bytes: int = 1 << 22,
        updates: int = 1,
    ) -> list[Conversion]:
        """Convert what has changed, and update the state; a killed run repeats or lacks that."""
        self.runs += 1
        work = self.folder / f"run{self.runs}"
        work.mkdir()
        run = SourceRun(
            span=Span(source="f", path="f", format=DATABASE),
            config=self.mapping,
            work=work,
            reading=ReadOptions(),
            options=replace(USUAL, span_bytes=span_bytes, refresh=is_refresh),
        )
        with open_state(self.state) as state:
            plan = plan_rows(open_table(self.mapping), state, run)
        conversions = [
            span_conversion(
                span,
                target,
                batch_records=batch_records,
                sources={"f": self.mapping},
                state=str(self.state),
                max_chunk_bytes=chunk,
            )
            for span in plan.spans
        ]
        with open_state(self.state) as state:
            before = state.head.generation
        for _ in range(updates):
            with open_state(self.state) as state:
                changes = advance_state(
                    [change for result in conversions for change in _changes_of(result)],
                    state=state,
                    incremental=self.mapping.reading,
                    mark=plan.mark,
                    path=work / "changes",
                )
            stamp = replace(_stamp(plan), run=str(self.runs))
            update_state(self.state, changes, before=before, stamp=stamp)
        return conversions

    def entries(self) -> list[Any]:
        with closing(sqlite3.connect(self.state)) as connection:
            return connection.execute("SELECT * FROM known ORDER BY key").fetchall()

    def forget_signatures(self) -> None:
        with closing(sqlite3.connect(self.state)) as connection, connection:
            connection.execute("UPDATE known SET size = 0")


def _stamp(plan: RowPlan) -> StateHead:
    return StateHead(rules=plan.rules, mark=encode_mark(plan.mark), secret=plan.secret)


def _changes_of(conversion: Conversion) -> Iterator[StateChange]:
    for name, data in conversion.files.items():
        if name.endswith(".seen.jsonl"):
            for line in data.splitlines():
                yield msgspec.json.decode(line, type=StateChange)


def _without_changes(conversion: Conversion) -> tuple[dict[str, Any], dict[str, bytes]]:
    """What a run sends and counts, without its file of changes."""
    account = msgspec.json.decode(conversion.account)
    account.pop("files", None)
    files = {name: data for name, data in conversion.files.items() if "seen" not in name}
    return account, files


def new_table(folder: Path, name: str, **keys: Any) -> RowMapping:
    with closing(sqlite3.connect(folder / "rows.db")) as connection, connection:
        connection.execute(f"CREATE TABLE t (k, stamp INTEGER, {', '.join(VALUES)})")
    usual: dict[str, Any] = {
        "table": "t",
        "key": ("k",),
        "url": ColumnReference(column="link"),
        "title": "title",
        "metadata": (MetadataColumn(column="title"), MetadataColumn(column="users")),
        "acl": AclSource(users="users"),
        "content": ContentSource(column="body"),
        "mimetype": "text/plain",
    }
    return RowMapping(
        connection=f"sqlite:///{folder}/rows.db", **{**usual, **MAPPINGS[name], **keys}
    )


def change_rows(folder: Path, night: Night, stamp: int) -> None:
    with closing(sqlite3.connect(folder / "rows.db")) as connection, connection:
        for key in [*night.changed, *night.deleted]:
            connection.execute("DELETE FROM t WHERE k IS ?", (key,))
        for key, row in night.changed.items():
            values = (key, stamp, *row.values())
            connection.execute(f"INSERT INTO t VALUES (?{', ?' * len(VALUES)}, ?)", values)


@pytest.mark.slow
@pytest.mark.parametrize("name", MAPPINGS)
@settings(max_examples=25)
@given(
    history=nights(),
    to=st.sampled_from(sorted(TARGETS)),
    page_rows=st.sampled_from((3, 1000, 1000)),
    size=st.sampled_from((*SIZES, 1024)),
    limits=st.sampled_from(((2500, 3000), (1 << 22, 1 << 22))),
    most_shapes=st.sampled_from((0, 16)),
)
def test_nights_in_columns_and_with_signatures_are_nights_with_single_rows(  # noqa: PLR0913, PLR0917 - of a property
    name: str,
    history: list[Night],
    to: str,
    page_rows: int,
    size: int,
    limits: tuple[int, int],
    most_shapes: int,
) -> None:
    """With batches, and with blocks only."""
    target = Target(format=to, datasource=TARGETS[to])
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(row_batches, "_MAX_SHAPES_OF_BATCH", most_shapes)
        mapping = new_table(Path(folder), name, page_rows=page_rows)
        single, batched, unsigned = (
            History(Path(folder), each, mapping) for each in ("single", "batched", "unsigned")
        )
        for number, night in enumerate(history, start=1):
            change_rows(Path(folder), night, number * 1000)
            chunk, span_bytes = limits
            options: dict[str, Any] = {
                "is_refresh": night.is_refresh,
                "chunk": chunk,
                "span_bytes": span_bytes,
            }
            of_single = single.run(target, batch_records=0, **options)
            assert batched.run(target, batch_records=size, **options) == of_single
            assert batched.entries() == single.entries()
            of_unsigned = unsigned.run(target, batch_records=size, **options)
            assert [*map(_without_changes, of_unsigned)] == [*map(_without_changes, of_single)]
            unsigned.forget_signatures()
            assert unsigned.entries() == [(*e[:2], 0, *e[3:]) for e in single.entries()]


ALIKE: Row = {
    "title": "a",
    "body": "text",
    "users": "anna",
    "at": "2026-01-31 08:30:00",
    "op": None,
}


def alike(number: int, **changed: object) -> Row:
    return {"link": f"http://www.example.com/{number}", **ALIKE, **changed}


class Stored(NamedTuple):
    """A row of the table: its key, its timestamp and its values."""

    key: int
    stamp: int | None
    row: Row


CHANGES: dict[str, Row] = {
    "title": {"title": "b & c"},
    "title as a number": {"title": 3},
    "title as a text": {"title": "3"},
    "no title": {"title": None},
    "large": {"body": "x" * (INLINE_BYTES + 1)},
    "permitted": {"users": "anna, ben"},
    "invalid": {"link": "no url"},
    "as at first": {},
}
KINDS = (*["usual"] * 6, "refresh", "other rules", "killed before update", "killed after update")
STEPS = (*["stays"] * 9, *CHANGES, "moves", "late", "undated", "new key", "gone")


@st.composite
def stored_nights(draw: st.DrawFn) -> list[tuple[list[Stored], str]]:
    """Nights, each with the whole table, and its kind; the first one is usual.

    Each place has at most a row at a time, with a URL of its own; it can go, come back, and get
    another key.
    """
    places = range(1, draw(st.integers(1, 14)) + 1)
    stored = {place: Stored(place, 0, alike(place)) for place in places}
    last = dict(stored)
    result = []
    for number in range(1, draw(st.integers(2, 5)) + 1):
        for place in places:
            step = draw(st.sampled_from(STEPS))
            if step == "stays":
                continue
            before = last[place]
            changed = Stored(before.key, number, alike(place, **CHANGES.get(step, {})))
            if step == "moves":
                changed.row["link"] = f"http://www.example.com/{place}/moved"
            elif step == "late":
                changed = changed._replace(stamp=0, row={**changed.row, "title": f"late {number}"})
            elif step == "undated":
                changed = changed._replace(stamp=None)
            elif step == "new key":
                changed = before._replace(key=before.key + 100, stamp=number)
            stored.pop(place, None)
            if step != "gone":
                stored[place] = last[place] = changed
        rows = sorted(stored.values(), key=lambda each: each.key)
        result.append((rows, draw(st.sampled_from(KINDS)) if number > 1 else "usual"))
    return result


class Expected:
    """What each night has to send: the oracle, which keeps what was sent of each key.

    A document that is gone is deleted in this night, a URL that a row had before in the next one. A
    row that was rejected is sent when it is valid again. With a timestamp, rows are read that are
    not older than the newest row since the last refresh, have none, or were rejected.
    """

    def __init__(self, *, is_dated: bool) -> None:
        self.is_dated = is_dated
        self.newest: int | None = None
        self.sent: dict[int, tuple[str, object]] = {}
        self.former: set[str] = set()

    def night(self, rows: list[Stored], *, is_refresh: bool) -> dict[str, Any]:
        keys = {stored.key for stored in rows}
        gone = {key: self.sent.pop(key) for key in [*self.sent] if key not in keys}
        deleted = self.former | {url for url, _ in gone.values() if url}
        added: dict[str, object] = {}
        rejected = unchanged = 0
        self.former = set()
        for stored in rows:
            url, document = str(stored.row["link"]), self.document(stored.row)
            old_url, old_document = self.sent.get(stored.key, ("", None))
            if not (is_refresh or self.is_read(stored, old_document)):
                continue
            if url == "no url":
                rejected += 1
                self.sent[stored.key] = (old_url, None)
                continue
            if (old_url, old_document) == (url, document) and not is_refresh:
                unchanged += 1
            else:
                added[url] = document
            if old_url not in ("", url):
                self.former.add(old_url)
            self.sent[stored.key] = (url, document)
        stamps = [stored.stamp for stored in rows if stored.stamp is not None]
        before = [] if is_refresh or self.newest is None else [self.newest]
        self.newest = max([*stamps, *before], default=None)
        return {
            "deleted": deleted,
            "added": added,
            "rejected": rejected,
            "unchanged": unchanged,
        }

    def is_read(self, stored: Stored, old_document: object) -> bool:
        if not self.is_dated or self.newest is None or stored.stamp is None:
            return True
        was_rejected = stored.key in self.sent and old_document is None
        return stored.stamp >= self.newest or was_rejected

    def document(self, row: Row) -> object:
        title = None if row["title"] is None else str(row["title"])
        return title, row["body"], str(row["users"]).split(", ")


def write_rows(folder: Path, rows: list[Stored]) -> None:
    with closing(sqlite3.connect(folder / "rows.db")) as connection, connection:
        connection.execute("DELETE FROM t")
        for key, stamp, row in rows:
            values = (key, stamp, *row.values())
            connection.execute(f"INSERT INTO t VALUES (?{', ?' * len(VALUES)}, ?)", values)


def result_of(conversions: list[Conversion]) -> dict[str, Any]:
    """What a night has deleted and sent, and its counts, as the oracle states them."""
    result: dict[str, Any] = {"deleted": set(), "added": {}, "rejected": 0, "unchanged": 0}
    for conversion in conversions:
        account = msgspec.json.decode(conversion.account)
        result["rejected"] += sum(account["rejected"].values())
        result["unchanged"] += account["filter_codes"].get("unchanged", 0)
        for chunk in account["chunks"]:
            for line in conversion.files[Path(chunk["path"]).name].splitlines():
                record = msgspec.json.decode(line)
                if record["action"] == "DELETE":
                    result["deleted"].add(record["url"])
                    continue
                assert record["url"] not in result["added"]
                result["added"][record["url"]] = (
                    record.get("title"),
                    b64decode(record["content"]["data"]).decode(),
                    [principal["name"] for principal in record["acl"]["principals"]],
                )
    return result


@pytest.mark.slow
@pytest.mark.parametrize("name", ["compared", "dated"])
@settings(max_examples=60)
@given(
    history=stored_nights(),
    size=st.sampled_from((0, *SIZES)),
    page_rows=st.sampled_from((1, 3, 5, 1000)),
    span_bytes=st.sampled_from((3000, 1 << 22)),
)
def test_each_night_sends_what_is_not_as_it_was_sent(
    name: str,
    history: list[tuple[list[Stored], str]],
    size: int,
    page_rows: int,
    span_bytes: int,
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        mapping = new_table(Path(folder), name, page_rows=page_rows)
        run = History(Path(folder), "run", mapping)
        expected = Expected(is_dated=name == "dated")
        for rows, kind in history:
            write_rows(Path(folder), rows)
            options: dict[str, Any] = {
                "batch_records": size,
                "is_refresh": kind == "refresh",
                "span_bytes": span_bytes,
            }
            if kind == "other rules":
                description = None if run.mapping.description else "at"
                run.mapping = replace(run.mapping, description=description)
            if kind == "killed before update":
                run.run(Target(format="jsonl"), updates=0, **options)
            updates = 2 if kind == "killed after update" else 1
            conversions = run.run(Target(format="jsonl"), updates=updates, **options)
            is_refresh = kind in {"refresh", "other rules"}
            assert result_of(conversions) == expected.night(rows, is_refresh=is_refresh)


def test_a_rejected_row_is_read_again_with_an_older_timestamp(tmp_path: Path) -> None:
    run = History(tmp_path, "run", new_table(tmp_path, "dated"))
    write_rows(tmp_path, [Stored(1, 8, alike(1, link="no url")), Stored(2, 5, alike(2))])
    first = result_of(run.run(Target(format="jsonl"), batch_records=0))
    assert (first["rejected"], [*first["added"]]) == (1, ["http://www.example.com/2"])
    write_rows(tmp_path, [Stored(1, 3, alike(1)), Stored(2, 5, alike(2))])
    second = result_of(run.run(Target(format="jsonl"), batch_records=0))
    assert (second["rejected"], [*second["added"]]) == (0, ["http://www.example.com/1"])


def read_night(history: History) -> list[Any]:
    options = ReadOptions(batch_records=100)
    with open_state(history.state) as state:
        whole = Span(source="f")
        return [*read_rows(whole, mapping=history.mapping, options=options, state=state)]


def test_a_later_night_counts_unchanged_rows_and_has_a_batch_of_the_changed_ones(
    tmp_path: Path,
) -> None:
    history = History(tmp_path, "run", new_table(tmp_path, "compared"))
    change_rows(tmp_path, Night({number: alike(number) for number in range(40)}, set(), False), 1)
    history.run(Target(format="jsonl"), batch_records=100)
    changed: dict[object, Row] = {number: alike(number, title="b") for number in range(0, 40, 4)}
    change_rows(tmp_path, Night(changed, set(), False), 1)
    unchanged, first, batch = read_night(history)
    assert unchanged == Filtered(code="unchanged", url="", action="ADD", count=30)
    assert [first.url, *(record.url for record in batch)] == [
        row["link"] for row in changed.values()
    ]
    history.forget_signatures()
    first, of_digests, batch = read_night(history)
    assert of_digests == Filtered(code="unchanged", url="", action="ADD", count=30)
    assert isinstance(batch, RecordBatch)


def test_changed_rows_of_several_pages_are_a_batch(tmp_path: Path) -> None:
    history = History(tmp_path, "run", new_table(tmp_path, "compared", page_rows=10))
    rows: dict[object, Row] = {number: alike(number) for number in range(95)}
    change_rows(tmp_path, Night(rows, set(), False), 1)
    history.run(Target(format="jsonl"), batch_records=100)
    changed: dict[object, Row] = {number: alike(number, title="b") for number in range(0, 95, 5)}
    large = {42: alike(42, body="x" * (INLINE_BYTES + 1))}
    change_rows(tmp_path, Night(changed | large, set(), False), 1)
    outcomes = read_night(history)
    sent = [outcome for outcome in outcomes if not isinstance(outcome, Filtered)]
    assert sum(outcome.count for outcome in outcomes if isinstance(outcome, Filtered)) == 75
    first, first_batch, of_42, last_batch = sent
    assert [first.url, *(record.url for record in (*first_batch, of_42, *last_batch))] == [
        f"http://www.example.com/{number}" for number in sorted([*range(0, 95, 5), 42])
    ]


def test_rows_whose_entries_stay_are_not_written_to_the_state_again(tmp_path: Path) -> None:
    history = History(tmp_path, "run", new_table(tmp_path, "compared"))
    change_rows(tmp_path, Night({number: alike(number) for number in range(9)}, set(), False), 1)
    history.run(Target(format="jsonl"), batch_records=7)
    entries = history.entries()
    conversions = history.run(Target(format="jsonl"), batch_records=7)
    assert [change for result in conversions for change in _changes_of(result)] == []
    assert history.entries() == entries


MOMENT = datetime(2026, 1, 31, 8, 30)
EARLIER = timezone(timedelta(hours=1))


@pytest.mark.parametrize(
    "values",
    [
        (1, 1.0, "1", b"1", True, None, 2, -1),
        (0.0, -0.0, 0, False, "", b""),
        (MOMENT, MOMENT.replace(tzinfo=UTC), "2026-01-31T08:30:00", MOMENT.replace(second=1)),
        (MOMENT.replace(tzinfo=UTC), MOMENT.replace(hour=9, tzinfo=EARLIER)),
        (Decimal("1.50"), Decimal("1.5"), "1.50", 1.5),
        (date(2026, 1, 31), "2026-01-31", datetime(2026, 1, 31)),
        (UUID(int=1), str(UUID(int=1)), UUID(int=1).bytes),
    ],
)
def test_different_values_have_different_signatures(values: tuple[object, ...]) -> None:
    signatures = RowSignatures("rules")
    numbers = [number for value in values for number in signatures.of_page(Page([(7, value)]))]
    assert len({*numbers}) == len(values)
    assert min(numbers) > 0


def test_rows_that_differ_in_a_character_or_in_the_order_of_two_have_different_signatures() -> None:
    text = "".join(f"{number}," for number in range(200))
    texts = {text, *(text[:at] + text[at + 1 :] for at in range(len(text)))}
    for other in " 0":
        texts |= {text[:at] + other + text[at + 1 :] for at in range(len(text))}
    texts |= {text[:at] + text[at + 16 : at + 32] + text[at : at + 16] for at in range(0, 400, 16)}
    signatures = RowSignatures("rules").of_page(Page([(7, each, None) for each in sorted(texts)]))
    assert len({*signatures}) == len(texts) > 1500


def test_signatures_are_made_with_a_secret_of_the_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("feedferry.transforms.sources.database.plan.token_hex", token_hex)
    mapping, target = new_table(tmp_path, "compared"), Target(format="jsonl")
    change_rows(tmp_path, Night({number: alike(number) for number in range(9)}, set(), False), 1)
    signatures = []
    for name in ("one", "two"):
        history = History(tmp_path, name, mapping)
        history.run(target, batch_records=7)
        signatures.append({entry[2] for entry in history.entries()})
        with open_state(history.state) as state:
            secret = state.head.secret
        assert len(secret) == 32
        again = history.run(target, batch_records=7)[-1]
        assert msgspec.json.decode(again.account)["filtered"] == {"ADD": 9}
        with open_state(history.state) as state:
            assert state.head.secret == secret
    one, two = signatures
    assert len(one) == len(two) == 9
    assert one.isdisjoint(two)


def test_signatures_depend_on_the_rules() -> None:
    page = Page([(1, "a"), (2, None)])
    assert RowSignatures("a").of_page(page) == RowSignatures("a").of_page(page)
    assert {*RowSignatures("a").of_page(page)}.isdisjoint(RowSignatures("b").of_page(page))


@pytest.mark.parametrize(
    "values",
    [(MOMENT, "2026-01-31T08:30:00"), (Decimal(1), MOMENT), ([1], [2]), (1 << 64, 1), ("\udcff",)],
)
def test_rows_with_values_that_could_be_mistaken_have_no_signatures(
    values: tuple[object, ...],
) -> None:
    page = Page([(value,) for value in values])
    assert RowSignatures("rules").of_page(page) == [0] * len(values)


def test_only_rows_with_a_url_and_a_digest_are_known_by_their_signatures(tmp_path: Path) -> None:
    sent = SentDocument(key="[1]", url="http://www.example.com/1", size=7, digest="d")
    rejected = replace(sent, key="[2]", digest="")
    deleted = replace(sent, key="[3]", url="")
    unsigned = replace(sent, key="[4]", size=0)
    path = tmp_path / "state"
    changes = [StateChange(document=each) for each in (sent, rejected, deleted, unsigned)]
    update_state(path, changes, before=0, stamp=StateHead())
    keys = ["[1]", "[2]", "[3]", "[4]", "[5]"]
    with open_state(path) as state:
        assert state.changed({"[1]": 7, "[2]": 17, "[3]": 27, "[4]": 0, "[5]": 37}) == {
            17,
            27,
            0,
            37,
        }
        assert state.changed({"[1]": 8}) == {8}
        assert state.changed(dict.fromkeys(keys[1:], 7)) == {7}
        assert state.find_all(keys) == {
            "[1]": sent,
            "[2]": rejected,
            "[3]": deleted,
            "[4]": unsigned,
        }


def test_a_row_that_is_rejected_late_is_read_again(tmp_path: Path) -> None:
    history = History(
        tmp_path, "run", new_table(tmp_path, "compared", content=ContentSource(is_none=True))
    )
    change_rows(tmp_path, Night({number: alike(number) for number in range(9)}, set(), False), 1)
    target = Target(format="thunderstone")  # it takes no URLs to be crawled
    first, second = (history.run(target, batch_records=7)[-1] for _ in range(2))
    assert msgspec.json.decode(first.account)["rejected"] == {"ADD": 9}
    assert msgspec.json.decode(second.account)["rejected"] == {"ADD": 9}


def test_of_rows_that_share_a_url_in_a_batch_the_rejected_one_has_no_digest(tmp_path: Path) -> None:
    history = History(
        tmp_path, "run", new_table(tmp_path, "compared", content=ContentSource(is_none=True))
    )
    rows: dict[object, Row] = {number: alike(number % 4) for number in range(9)}
    change_rows(tmp_path, Night(rows, set(), False), 1)
    history.run(Target(format="thunderstone"), batch_records=100)
    assert {entry[5] for entry in history.entries()} == {""}
