"""The conversion of one span: account, chunks, rejects, and what is left when it stops."""

import gc
import hashlib
import io
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fastavro
import msgspec
import pytest

from feedferry.schemas import avro
from feedferry.schemas.account import Account, LossCount
from feedferry.schemas.notice import REFUSED, Loss
from feedferry.schemas.record import Content, Encoding, Record
from feedferry.schemas.reject import DEFECT
from feedferry.schemas.span import FileSignature, Span
from feedferry.testing.defects import break_at
from feedferry.transforms.conversion.conversion_settings import Settings
from feedferry.transforms.conversion.convert import CANCELLED, convert
from feedferry.transforms.conversion.span_progress import SpanProgress, progress_reader
from feedferry.transforms.formats import ContentOptions, ReadOptions, WriteOptions, by_name
from feedferry.transforms.formats.canonical.jsonl import read as read_native
from feedferry.transforms.rules.adapt import Target
from feedferry.transforms.rules.known_rejects import add_known_rejects
from support.archives import (
    ACL,
    BROKEN,
    DELETED,
    HOST,
    document,
    documents,
    gsa_feed,
    jsonl,
    put,
    thunderstone,
)

MIXED = gsa_feed(*documents(1, 2), BROKEN, DELETED)
PROTECTED = document(9, inside=ACL)
FILES_OF_MIXED = [
    *("00000-00000-000.jsonl", "00000-00000.0.json"),
    *("00000-00000.refused.jsonl", "00000-00000.rejects.avro"),
]


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


def span_of(work: Path, text: bytes, *, format_: str = "gsa-feed", ordinal: int = 0) -> Span:
    """Return a span that is a whole file of this text."""
    source = put(work.parent / "source", text)
    return Span(source=source, format=format_, ordinal=ordinal)


def only(span: Span) -> Span:
    return msgspec.structs.replace(span, is_only=True)


def settings(
    work: Path, *, to: str = "jsonl", max_chunk_bytes: int = 1 << 20, **stated: Any
) -> Settings:
    """Return settings that refuse no loss unless the test states some."""
    stated.setdefault("refused", frozenset())
    names = set(Target.__struct_fields__) & set(stated)
    target = Target(format=to, **{name: stated.pop(name) for name in names})
    return Settings(
        folder=str(work),
        target=target,
        reading=ReadOptions(),
        writing=WriteOptions(own=target.own),
        max_chunk_bytes=max_chunk_bytes,
        **stated,
    )


def names(folder: Path) -> list[str]:
    """Return the names of all files, at any depth."""
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


def file_of(work: Path, name: str) -> Path:
    """Return the file with this name of the only attempt."""
    [path] = work.glob(f"00000-00000/*/{name}")
    return path


def rejects_of(work: Path) -> list[Any]:
    with file_of(work, "00000-00000.rejects.avro").open("rb") as stream:
        return list(fastavro.reader(stream))


def texts_of(work: Path, account: Account) -> list[tuple[str, bytes]]:
    """Return name and bytes of each file of a span."""
    return [(Path(file.path).name, (work / file.path).read_bytes()) for file in account.files]


def remove(path: Path) -> None:
    path.unlink()


def truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def zero(path: Path) -> None:
    """Zero some bytes in the middle of a file; its times stay as they are."""
    status = path.stat()
    with path.open("r+b") as stream:
        stream.seek(status.st_size // 3)
        stream.write(bytes(status.st_size // 3))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


DAMAGES = (remove, truncate, zero)


def heads(work: Path, account: Account) -> list[str]:
    """Return the feedtype in the header of each chunk."""
    texts = [(work / chunk.path).read_text("utf-8") for chunk in account.chunks]
    return [text.partition("<feedtype>")[2].partition("<")[0] for text in texts]


def test_a_span_has_an_account_that_lists_all_its_files(work: Path) -> None:
    account = convert(span_of(work, MIXED), settings(work))

    source = str(work.parent / "source")
    [sample] = account.reject_samples["malformed"]
    assert (sample.source, sample.line, sample.offset) == (source, 5, MIXED.index(BROKEN.encode()))
    [hole] = account.holes
    assert (hole.source, hole.count, hole.datasource) == (source, 1, None)
    bare = msgspec.structs.replace(account, chunks=[], files=[], reject_samples={}, holes=[])
    assert bare == Account(
        read={"ADD": 2, "DELETE": 1, "unreadable": 1},
        written={"ADD": 2, "DELETE": 1},
        rejected={"unreadable": 1},
        reject_codes={"malformed": 1},
        spans=1,
        bytes_read=len(MIXED),
        bytes_stored=len(MIXED),
        stored=["00000-00000.0.json"],
    )
    assert names(work) == FILES_OF_MIXED
    assert [(file.bytes, file.sha256) for file in account.files] == [
        (len(text), hashlib.sha256(text).hexdigest()) for _, text in texts_of(work, account)
    ]
    assert [name for name, _ in texts_of(work, account)] == [
        "00000-00000-000.jsonl",
        "00000-00000.rejects.avro",
        "00000-00000.refused.jsonl",
    ]
    [chunk] = account.chunks
    assert (work / chunk.path, chunk.records, chunk.last_url) == (
        file_of(work, "00000-00000-000.jsonl"),
        {"ADD": 2, "DELETE": 1},
        f"{HOST}/old.txt",
    )


def test_a_known_reject_is_counted_apart_also_in_an_attempt_that_did_not_know_it(
    work: Path, tmp_path: Path
) -> None:
    span, unlisted = span_of(work, MIXED), settings(work)
    known = tmp_path / "known.txt"
    listed = msgspec.structs.replace(unlisted, accepted_rejects=str(known), max_rejects=0)
    assert convert(span, listed).exit_code == 3

    assert convert(span, unlisted).accepted_rejects == {}
    add_known_rejects(known, [f"malformed {HOST}/torn.txt"])
    for folder in (work, tmp_path):
        account = convert(span, msgspec.structs.replace(listed, folder=str(folder)))
        assert (account.accepted_rejects, account.new_rejects) == ({"malformed": 1}, 0)
        assert account.rejected == {"unreadable": 1}
        assert [reject.is_accepted for reject in account.reject_samples["malformed"]] == [True]


def test_garbage_is_collected_as_before_after_a_conversion(work: Path) -> None:
    before = gc.get_threshold()
    convert(span_of(work, b"no feed"), settings(work))
    assert gc.get_threshold() == before


def test_records_are_written_in_their_order(work: Path) -> None:
    convert(span_of(work, MIXED), settings(work))

    with file_of(work, "00000-00000-000.jsonl").open("rb") as stream:
        records = [*read_native(stream)]
    urls = [record.url for record in records if isinstance(record, Record)]
    assert urls == [f"{HOST}/1.txt", f"{HOST}/2.txt", f"{HOST}/old.txt"]


def test_a_reject_has_its_original_bytes_and_its_place(work: Path) -> None:
    convert(span_of(work, MIXED), settings(work))

    [reject] = rejects_of(work)
    assert (reject["line"], reject["data"]) == (5, BROKEN.encode())
    assert MIXED[reject["offset"] :].startswith(BROKEN.encode())


def test_a_defect_in_the_writing_of_a_reject_costs_that_reject(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    break_at(
        monkeypatch,
        "feedferry.transforms.storage.atomic:RejectFile.add",
        lambda file, reject: reject.code != DEFECT,
    )
    account = convert(span_of(work, MIXED), settings(work))
    assert (account.reject_codes, account.defects) == ({"defect": 1}, {"KeyError": 1})
    assert [reject["url"] for reject in rejects_of(work)] == [f"{HOST}/torn.txt"]
    assert account.stopped is None


def test_records_that_the_target_rejects_are_kept_and_their_urls_are_listed(work: Path) -> None:
    crawled = [f'<record url="{HOST}/{name}"/>' for name in "ab"]
    span = span_of(work, gsa_feed(*crawled, feedtype="metadata-and-url"))
    convert(span, settings(work, to="thunderstone"))

    reject, _ = rejects_of(work)
    assert (reject["stage"], reject["code"]) == ("adapt", "crawled")
    assert (
        avro.convert(avro.read_fields(io.BytesIO(reject["data"]), "record"), Record).url
        == f"{HOST}/a"
    )
    assert file_of(work, "00000-00000.urls.txt").read_text() == f"{HOST}/a\n{HOST}/b\n"


def test_a_record_that_fits_in_no_chunk_is_rejected_and_kept(work: Path) -> None:
    span = span_of(work, gsa_feed(document(1), document(2, text="plan " * 100)))
    account = convert(span, settings(work, max_chunk_bytes=500))

    assert (account.written, account.reject_codes) == ({"ADD": 1}, {"record-too-large": 1})
    [reject] = rejects_of(work)
    assert (
        reject["stage"],
        avro.convert(avro.read_fields(io.BytesIO(reject["data"]), "record"), Record).url,
    ) == ("write", f"{HOST}/2.txt")


# Losses


def test_a_loss_is_counted_and_sampled(work: Path) -> None:
    span = span_of(work, gsa_feed(document(1), PROTECTED))
    account = convert(span, settings(work, to="thunderstone"))

    lost = Loss(field="acl", url=f"{HOST}/9.txt", detail="1 principal")
    assert account.losses == {"acl": LossCount(1, (lost,))}


@pytest.mark.parametrize(
    ("urls", "rejected", "noted"), [("any", {}, {"url-doubtful": 3}), ("strict", {"ADD": 3}, {})]
)
def test_urls_that_no_appliance_can_serve_are_noted_or_rejected_and_deletions_are_written(
    work: Path, urls: str, rejected: dict[str, int], noted: dict[str, int]
) -> None:
    alike = [document(number).replace(HOST, "http://intranet") for number in range(3)]
    delete = '<record url="http://intranet/9.txt" action="delete"/>'
    account = convert(
        span_of(work, gsa_feed(*alike, document(4), delete)), settings(work, urls=urls)
    )

    assert account.rejected == rejected
    assert {code: notice.count for code, notice in account.notices.items()} == noted
    assert account.written == {"ADD": 4 - rejected.get("ADD", 0), "DELETE": 1}


@pytest.mark.parametrize("has_default", [True, False])
def test_a_refused_loss_stops_the_span_and_losses_of_acls_are_refused_by_default(
    work: Path, has_default: bool
) -> None:
    stated = settings(work, to="thunderstone", refused=frozenset({"acl"}), max_chunk_bytes=600)
    if has_default:
        stated = Settings(
            folder=str(work),
            target=Target(format="thunderstone"),
            reading=ReadOptions(),
            writing=WriteOptions(),
            max_chunk_bytes=600,
        )
    span = span_of(work, gsa_feed(*documents(1, 8), BROKEN, PROTECTED))

    reason = f"{span.source}: {HOST}/9.txt: acl: 1 principal; ⟦accept_loss acl⟧ goes on without it"
    assert convert(span, stated) == Account(spans=1, stopped=reason, exit_code=3)
    assert names(work) == []


@pytest.mark.parametrize(("datasource", "feedtype"), [("wiki", None), (None, "incremental")])
@pytest.mark.parametrize("to", ["lister-stream", "thunderstone"])
def test_a_target_without_acls_refuses_a_protected_record_also_in_a_named_feed(
    work: Path, to: str, datasource: str | None, feedtype: str | None
) -> None:
    stated = settings(work, to=to, refused=REFUSED, datasource=datasource, feedtype=feedtype)
    account = convert(span_of(work, gsa_feed(PROTECTED)), stated)

    assert (account.exit_code, account.written, names(work)) == (3, {}, [])


@pytest.mark.parametrize("to", ["avro", "jsonl"])
def test_content_for_an_archive_in_a_named_feed_is_encoded_as_stated(work: Path, to: str) -> None:
    stated = settings(
        work, to=to, datasource="wiki", own=(ContentOptions(content_encoding="base64"),)
    )
    account = convert(span_of(work, gsa_feed(document(1))), stated)

    with (work / account.chunks[0].path).open("rb") as stream:
        [record] = by_name(to).read(stream)
    assert isinstance(record, Record)
    assert (record.content, record.provenance.datasource) == (
        Content(b"cGxhbiAx", Encoding.BASE64),
        "wiki",
    )


def test_a_full_feed_is_a_loss_if_the_target_keeps_what_it_leaves_out(work: Path) -> None:
    span = span_of(work, gsa_feed(*documents(1, 2), feedtype="full"))
    account = convert(span, settings(work, to="thunderstone"))

    detail = "full: the target keeps what the feed leaves out; delete that yourself"
    lost = Loss(field="feedtype", url=f"{HOST}/1.txt", detail=detail)
    assert account.losses == {"feedtype": LossCount(1, (lost,))}


# Spans that stop


def test_more_rejects_than_allowed_stop_the_span(work: Path) -> None:
    span = span_of(work, gsa_feed(BROKEN, document(1), BROKEN))

    line = f"{span.source}:5 (byte 357): an & that is not escaped; expected &amp;"
    reason = f"{line}; this is more than the 1 rejects that ⟦max_rejects⟧ allows"
    assert convert(span, settings(work, max_rejects=1)) == Account(
        spans=1, stopped=reason, exit_code=3
    )
    assert convert(span, settings(work, max_rejects=2)).stopped is None


def test_a_missing_source_is_rejected(work: Path) -> None:
    account = convert(Span(source="nowhere.xml", format="gsa-feed"), settings(work))

    assert [hole.source for hole in account.holes] == ["nowhere.xml"]
    assert msgspec.structs.replace(account, files=[], reject_samples={}, holes=[]) == Account(
        read={"unreadable": 1},
        rejected={"unreadable": 1},
        reject_codes={"unreadable": 1},
        spans=1,
        stored=["00000-00000.0.json"],
    )
    (reject,) = rejects_of(work)
    assert reject["reason"] == "No such file or directory; expected a file that can be read"


def test_a_shorter_source_and_one_of_another_format_stop_the_span(work: Path) -> None:
    span = span_of(work, gsa_feed(*documents(1, 9)))
    shrunk = convert(
        msgspec.structs.replace(span, signature=FileSignature(size=5_000)), settings(work)
    )
    other = convert(only(span_of(work, b"%PDF-1.4", format_="avro")), settings(work))

    assert (shrunk.exit_code, other.exit_code, names(work)) == (4, 4, [])
    assert (shrunk.stopped or "").startswith(f"{span.source}: changed while it was converted: it")


def test_a_missing_folder_stops_the_span(work: Path) -> None:
    account = convert(span_of(work, gsa_feed(document(1))), settings(work / "none"))

    path = work / "none" / "00000-00000"
    reason = f"{path}: No such file or directory; expected to write there"
    assert account == Account(spans=1, stopped=reason, exit_code=4)


def test_a_source_without_a_datasource_needs_one(work: Path) -> None:
    span = span_of(work, thunderstone(f"{HOST}/a"), format_="thunderstone")
    account = convert(span, settings(work, to="gsa-feed"))

    reason = f"{span.source}: no datasource in the source; expected ⟦datasource NAME⟧"
    assert account == Account(spans=1, stopped=reason, exit_code=2)


# Accounts of earlier attempts


def test_a_span_with_an_account_is_not_read_again(work: Path) -> None:
    span = span_of(work, MIXED)
    first = convert(span, settings(work))
    Path(span.source).unlink()

    assert convert(span, settings(work)) == first


def test_a_span_that_was_stopped_is_read_again(work: Path) -> None:
    span = only(span_of(work, b"%PDF-1.4"))
    convert(span, settings(work))
    put(work.parent / "source", MIXED)

    assert convert(span, settings(work)).written == {"ADD": 2, "DELETE": 1}


def test_files_of_a_killed_attempt_are_removed_unless_it_ran_on_another_host(work: Path) -> None:
    killed = f"00000-00000/{socket.gethostname()}-1-0"
    put(work / killed / "00000-00000-000.jsonl.partial", b"of be")
    put(work / f"{killed}.lock", b"")
    put(work / "00000-00000/another-host-1-0/other.partial", b"of be")
    convert(span_of(work, MIXED), settings(work))

    assert names(work) == [*FILES_OF_MIXED, "other.partial"]


@pytest.mark.parametrize(
    "name", ["00000-00000-000.jsonl", "00000-00000.rejects.avro", "00000-00000.0.json"]
)
@pytest.mark.parametrize("damage", DAMAGES, ids=[damage.__name__ for damage in DAMAGES])
def test_a_span_with_a_damaged_file_or_account_is_converted_again(
    work: Path, name: str, damage: Callable[[Path], None]
) -> None:
    span = span_of(work, MIXED)
    texts = texts_of(work, convert(span, settings(work)))
    damage(next(work.rglob(name)))
    second = convert(span, settings(work))
    assert texts_of(work, second) == texts

    Path(span.source).unlink()
    assert convert(span, settings(work)) == second


def test_an_account_of_a_span_that_was_cut_differently_does_not_count(work: Path) -> None:
    span = span_of(work, gsa_feed(*documents(1, 2)))
    convert(span, settings(work))
    longer = msgspec.structs.replace(span_of(work, gsa_feed(*documents(1, 3))), length=None, line=2)

    assert convert(longer, settings(work)).written == {"ADD": 3}


def test_without_verification_missing_files_are_noticed_and_damaged_ones_are_not(
    work: Path,
) -> None:
    span, stated = span_of(work, MIXED), settings(work, verify=False)
    before = convert(span, stated)
    texts = texts_of(work, before)
    zero(file_of(work, "00000-00000-000.jsonl"))
    assert convert(span, stated) == before

    file_of(work, "00000-00000-000.jsonl").unlink()
    assert texts_of(work, convert(span, stated)) == texts


# Feeds


def test_only_the_first_chunk_of_a_full_feed_is_full(work: Path) -> None:
    span = span_of(work, gsa_feed(*documents(1, 5), feedtype="full"))
    account = convert(span, settings(work, to="gsa-feed", max_chunk_bytes=500))

    assert heads(work, account) == ["full", "incremental", "incremental"]
    assert [chunk.requested_feedtype for chunk in account.chunks] == ["full", "full", "full"]


def test_no_chunk_of_a_later_span_is_full(work: Path) -> None:
    span = span_of(work, gsa_feed(document(1), feedtype="full"), ordinal=1)
    account = convert(span, settings(work, to="gsa-feed"))

    assert heads(work, account) == ["incremental"]


def test_no_chunk_is_longer_than_the_limit(work: Path) -> None:
    span = span_of(work, gsa_feed(*documents(1, 40)))
    account = convert(span, settings(work, to="gsa-feed", max_chunk_bytes=1000))

    sizes = [(work / chunk.path).stat().st_size for chunk in account.chunks]
    assert sizes == [chunk.bytes for chunk in account.chunks]
    assert 900 < max(sizes) <= 1000


def test_a_stated_datasource_and_feedtype_replace_those_of_the_source(work: Path) -> None:
    span = span_of(work, gsa_feed(document(1), feedtype="full"))
    stated = settings(work, to="gsa-feed", datasource="wiki", feedtype="incremental")
    account = convert(span, stated)

    text = (work / account.chunks[0].path).read_text("utf-8")
    assert (account.chunks[0].datasource, "<datasource>wiki<" in text) == ("wiki", True)
    assert heads(work, account) == ["incremental"]


def test_each_datasource_of_a_source_has_its_own_chunks(work: Path) -> None:
    lines = "".join(
        f'{{"action":"DELETE","provenance":{{"datasource":"{name}"}},"url":"{HOST}/{name}"}}\n'
        for name in ("wiki", "people", "wiki")
    )
    span = span_of(work, lines.encode(), format_="jsonl")
    account = convert(span, settings(work, to="gsa-feed"))

    assert [chunk.datasource for chunk in account.chunks] == ["wiki", "people", "wiki"]


# Other records


def test_a_deletion_by_pattern_is_expanded(work: Path) -> None:
    line = f'{{"action":"DELETE_PATTERN","url":"{HOST}/a/*"}}\n'
    span = span_of(work, line.encode(), format_="jsonl")
    known = (f"{HOST}/a/1", f"{HOST}/b/1", f"{HOST}/a/2")
    account = convert(span, settings(work, to="gsa-feed", datasource="intranet", known_urls=known))

    assert (account.read, account.expanded, account.written) == (
        {"DELETE_PATTERN": 1},
        {"DELETE_PATTERN": 1},
        {"DELETE": 2},
    )


def test_a_record_that_the_target_does_not_need_is_filtered(work: Path) -> None:
    span = span_of(work, b'{"action":"UPDATE_INDEX","url":""}\n', format_="jsonl")
    account = convert(span, settings(work, to="thunderstone"))

    assert (account.filtered, account.filter_codes) == ({"UPDATE_INDEX": 1}, {"update-index": 1})


def test_records_are_normalized(work: Path) -> None:
    account = convert(span_of(work, jsonl(f" {HOST}/a "), format_="jsonl"), settings(work))

    assert account.chunks[0].first_url == f"{HOST}/a"


def test_an_empty_source_has_an_account_and_no_other_file(work: Path) -> None:
    account = convert(span_of(work, b"", format_="jsonl"), settings(work))

    assert account == Account(spans=1, stored=["00000-00000.0.json"])
    assert names(work) == account.stored


def test_a_span_ends_with_a_job_that_was_cancelled(work: Path) -> None:
    (work / CANCELLED).touch()
    account = convert(span_of(work, MIXED), settings(work, progress=str(work)))
    assert account.stopped == "the job was cancelled"
    assert names(work) == [CANCELLED]


def test_a_span_writes_its_progress(work: Path) -> None:
    convert(span_of(work, MIXED), settings(work, progress=str(work)))

    assert progress_reader(str(work)).sum() == SpanProgress(len(MIXED), 4, 1)


def test_a_span_that_is_only_verified_is_seen_as_progress(work: Path) -> None:
    """Otherwise a job that hashes the files of many finished spans would count as stalled."""
    span, given = span_of(work, MIXED), settings(work, progress=str(work))
    reader = progress_reader(str(work))
    for lines in (1, 2):
        assert convert(span, given).spans == 1
        assert (reader.sum(), reader.lines) == (SpanProgress(len(MIXED), 4, 1), lines)
