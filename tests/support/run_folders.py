"""Folders of runs as a job leaves them, made without running it."""

import math
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec

from feedferry.pipelines.report.conversion_report import Report, as_json
from feedferry.schemas.account import (
    Account,
    AccountTotals,
    Chunk,
    LossCount,
    NoticeCount,
    RejectSample,
)
from feedferry.schemas.notice import Loss, Notice
from feedferry.schemas.receipt import ChunkState, Receipt
from feedferry.schemas.reject import Reject
from feedferry.schemas.run_record import RUN_RECORD, Phase, RunRecord
from feedferry.schemas.timeline import TIMELINE, TimelinePoint
from feedferry.transforms.storage.atomic import RejectFile, write_json
from feedferry.transforms.storage.storage import LocalStorage

BEGIN = datetime(2026, 7, 1, 2, 0, tzinfo=UTC)
APPLIANCE = "gsa.example.com_19900"


def account(text: str = "") -> Account:
    """An account with something of everything; `text` is in all that comes from the input."""
    url = f"http://www.example.com/handbook/{text or 'travel.html'}"
    losses = {
        "acl": LossCount(48, (Loss(field="acl", url=url, detail=text or "2 principals"),)),
        "pagerank": LossCount(
            1_704, tuple(Loss(field="pagerank", url=f"{url}?page={n}", detail="96") for n in (1, 2))
        ),
    }
    notice = Notice(
        code="date", detail=f"{text or '2001-13-01'}; read as no date", source="a.xml", offset=9120
    )
    return Account(
        read={"ADD": 412_803, "DELETE": 1_208, "UPDATE": 41},
        written={"ADD": 412_690, "DELETE": 1_208},
        rejected={"ADD": 113},
        filtered={"UPDATE": 41},
        reject_codes={"malformed": 101, "crawled": 12},
        accepted_rejects={"crawled": 11},
        reject_samples={
            "crawled": (reject("a.xml", 88, url), reject("a.xml", 91, url, is_accepted=True)),
            "malformed": tuple(reject(text or "a.xml", 1_204 + n, None) for n in range(5)),
        },
        filter_codes={"acl-alone": 41},
        losses=losses,
        notices={"date": NoticeCount(12, notice)},
        bytes_read=5_812_443_102,
    )


def reject(source: str, line: int, url: str | None, *, is_accepted: bool = False) -> RejectSample:
    reason = "action='ad'; expected add or delete" if url is None else "no content; expected some"
    return RejectSample(
        source=source, line=line, offset=line * 71, url=url, reason=reason, is_accepted=is_accepted
    )


def write_rejects(path: Path, total: AccountTotals) -> None:
    """Write the rejects that an account has as samples."""
    path.parent.mkdir(parents=True)
    file = RejectFile(LocalStorage(path.parent), path.name)
    for code, samples in total.reject_samples.items():
        for sample in samples:
            file.add(
                Reject(
                    code=code,
                    stage="read",
                    reason=sample.reason,
                    source=sample.source,
                    line=sample.line,
                    offset=sample.offset,
                    url=sample.url,
                )
            )
    file.close(whole=True)


def write_run(
    folder: Path,
    *,
    record: RunRecord | None = None,
    text: str = "",
    chunks: int = 46,
    total: Account | None = None,
) -> Path:
    """Write the folder of a run that has converted and pushed; return it."""
    push = folder / "push" / APPLIANCE
    push.mkdir(parents=True)
    manifest = [chunk(n, text=text) for n in range(1, chunks + 1)]
    report = Report(
        account=total or account(text),
        folder=str(folder),
        chunks=chunks,
        chunk_bytes=sum(line.bytes for line in manifest),
        exit_code=1,
        settings={"reading": {"zone": text or "UTC", "mode": "lenient"}, "max_rejects": None},
        sources=(text or "archive/2026-06-30.xml.gz",),
    )
    write_json(folder / "report.json", as_json(report))
    write_rejects(folder / "rejects" / "00001.avro", report.account)
    if record is not None:
        (folder / RUN_RECORD).write_bytes(msgspec.json.encode(record))
    _write_lines(folder / "manifest.jsonl", manifest)
    _write_lines(folder / TIMELINE, points())
    header = b'{"version":1,"target":"http://gsa.example.com:19900","run":"1"}\n'
    _write_lines(push / "receipts-001.jsonl", receipts(manifest), head=header)
    write_json(
        push / "report.json",
        {
            "version": 1,
            "target": "http://gsa.example.com:19900",
            "chunks": {"accepted": chunks - 1, "refused": 1},
            "records": {"accepted": 413_886, "refused": 12, "left": 0},
            "bytes": 2_204_117_002,
            "sent_bytes": 1_102_058_501,
            "earlier_chunks": 23,
            "acl_changes": {"wider": 3},
            "attempts": chunks + 3,
            "notices": {text or "accepted with the remark 'Not found'": 8},
            "reject_samples": {
                "refused": [msgspec.to_builtins(reject("chunks/000007.xml", 1, text or None))]
            },
            "stopped": None,
            "waited_seconds": 1312.4,
            "seconds": 4127.0,
        },
    )
    return folder


def run_record(**values: object) -> RunRecord:
    """A run that ended with rejects, changed by `values`."""
    usual: dict[str, object] = {
        "id": "20260701T020000Z-4f1c",
        "job": "intranet",
        "generation": 214,
        "started_at": BEGIN,
        "ended_at": BEGIN + timedelta(seconds=5045),
        "phase": Phase.DONE,
        "exit_code": 1,
    }
    return msgspec.convert(usual | values, RunRecord)


def chunk(ordinal: int, *, text: str = "") -> Chunk:
    is_refused = ordinal == 7
    return Chunk(
        ordinal=ordinal,
        path=f"chunks/{ordinal:06d}.xml",
        bytes=48_000_000 if ordinal % 23 else 11_400_000,
        sha256="",
        records={"ADD": 8_990},
        first_url=text or f"http://www.example.com/{ordinal}/index.html",
        last_url=f"http://www.example.com/{ordinal}/z.html",
        source="archive",
        span=0,
        state=ChunkState.REFUSED if is_refused else ChunkState.ACCEPTED,
        attempts=1,
        reply=(text or "Error - malformed feed") if is_refused else "Success",
    )


def receipts(chunks: Iterable[Chunk]) -> Iterable[Receipt]:
    """Two for each chunk: most were accepted at once, some after a wait for the backlog."""
    at = BEGIN + timedelta(seconds=910)
    for line in chunks:
        seconds = 14 + 9 * math.sin(line.ordinal) ** 2 + (240 if line.ordinal % 15 == 0 else 0)
        yield Receipt(chunk=line.ordinal, sha256="", state=ChunkState.SENDING, at=at.isoformat())
        at += timedelta(seconds=seconds)
        yield Receipt(chunk=line.ordinal, sha256="", state=line.state, at=at.isoformat())
        at += timedelta(seconds=66)


def points() -> Iterable[TimelinePoint]:
    """A conversion, a push that waits for the backlog, a kill, and the same push a day later."""
    begin, day = BEGIN.timestamp(), 86_400
    for second in range(0, 901, 10):
        yield _point(
            begin + second, Phase.CONVERT, int(460 * second + 9_000 * math.sin(second / 90))
        )
    for second in range(0, 2_101, 15):
        backlog = round(2_400 + 1_900 * math.sin(second / 400)) if second else None
        yield _point(begin + 910 + second, Phase.PUSH, 100 * second, backlog)
    for second in range(0, 2_041, 15):
        backlog = round(900 + 700 * math.cos(second / 300))
        yield _point(begin + day + second, Phase.PUSH, 210_000 + 100 * second, backlog)


def _point(at: float, phase: Phase, records: int, backlog: int | None = None) -> TimelinePoint:
    return TimelinePoint(
        at=at, phase=phase, bytes=records * 5000, records=records, rejects=0, backlog=backlog
    )


def _write_lines(path: Path, values: Iterable[object], *, head: bytes = b"") -> None:
    with path.open("wb") as stream:
        stream.write(head)
        stream.writelines(msgspec.json.encode(value) + b"\n" for value in values)
