"""A chunk of nearly 1 GB goes through push and serve in little memory."""

import hashlib
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from feedferry.schemas.feed import Feed
from feedferry.schemas.record import Action, Content, Encoding, Record
from feedferry.transforms.formats import WriteOptions, by_name
from support.appliance_sockets import chunk
from support.fake_appliance import finished
from support.peaks import peak_of, run_measured
from support.served import serving

pytestmark = pytest.mark.slow

RECORDS = 943
CONTENT_BYTES = 1_000_000
MOST_BYTES = 100_000_000
FREE_BYTES = 4_000_000_000


def blocks() -> Iterator[bytes]:
    encoder = by_name("gsa-feed").make_encoder(
        WriteOptions(feed=Feed(datasource="a", feedtype="incremental"))
    )
    content = Content(data=b"A" * CONTENT_BYTES, encoding=Encoding.BASE64)
    yield encoder.prolog()
    for number in range(RECORDS):
        url = f"http://www.example.com/{number:03d}"
        record = Record(url=url, action=Action.ADD, mimetype="text/plain", content=content)
        yield encoder.frame([encoder.encode(record)])
    yield encoder.epilog()


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A run of one chunk of 943 MB; removed at once, for its size."""
    if shutil.disk_usage(tmp_path).free < FREE_BYTES:
        pytest.skip("less than 4 GB of disk")
    path = tmp_path / "run" / "chunks" / "000001.xml"
    path.parent.mkdir(parents=True)
    digest, size = hashlib.sha256(), 0
    with path.open("wb") as stream:
        for block in blocks():
            digest.update(block)
            size += stream.write(block)
    sent = replace(
        chunk(b"", ordinal=1, path="chunks/000001.xml", records={"ADD": RECORDS}),
        bytes=size,
        sha256=digest.hexdigest(),
    )
    finished(tmp_path / "run", [sent])
    yield tmp_path / "run"
    shutil.rmtree(tmp_path / "run")
    shutil.rmtree(tmp_path / "spool")


def peak_bytes(pid: int | str) -> int:
    """What a process has held at most, since its program began."""
    return peak_of(Path(f"/proc/{pid}/status").read_text())


def test_a_chunk_of_943_mb_takes_less_than_100_mb_on_either_side(
    folder: Path, tmp_path: Path
) -> None:
    with serving(tmp_path / "spool") as appliance:
        words = ["push", str(folder), "--to", appliance.url, "-q"]
        code, stderr, pushing_bytes = run_measured(words)
        serving_bytes = peak_bytes(appliance.process.pid)
        [delivery] = (tmp_path / "spool" / "feeds").rglob("*.xml")
        arrived = delivery.stat().st_size

    assert (code, stderr) == (0, "")
    assert arrived == (folder / "chunks" / "000001.xml").stat().st_size
    assert pushing_bytes < MOST_BYTES
    assert serving_bytes < MOST_BYTES
