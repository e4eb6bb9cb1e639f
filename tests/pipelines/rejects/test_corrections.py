"""A reject counts as replayed only if a record was written in its place."""

from pathlib import Path

import pytest

from feedferry.pipelines.rejects.corrections import Corrections, converted_numbers, read_corrections
from feedferry.pipelines.rejects.export import Export, ExportedFile
from feedferry.schemas.errors import ConfigError
from feedferry.schemas.reject import Reject
from feedferry.transforms.formats import ReadOptions
from feedferry.transforms.storage.atomic import RejectFile, write_json
from feedferry.transforms.storage.storage import LocalStorage
from support.archives import put

HEAD = "<gsafeed><header><datasource>a</datasource><feedtype>incremental</feedtype></header><group>"
TAIL = "</group></gsafeed>"


def record(name: str) -> str:
    return f'<record url="http://h/{name}" mimetype="text/plain"><content>a</content></record>'


def read(folder: Path, file: ExportedFile, *replayed: int) -> Corrections:
    return read_corrections(folder, Export(run="out", files=[file]), replayed, ReadOptions())


def feed(folder: Path, *parts: str) -> ExportedFile:
    put(folder / "001-gsa-feed.xml", "\n".join((HEAD, *parts, TAIL)).encode())
    return ExportedFile(path="001-gsa-feed.xml", numbers=[1, 2, 3, 4])


PARTS = (
    *("<!-- 1: bad-action: x -->", "<!-- 2, 3: two reasons -->", record("2")),
    *(record("also"), "<!-- 4: y -->", '<record url="http://h/4" action="ad"/>'),
)
"""The record of reject 1 was removed, reject 4 is not corrected."""


def test_a_record_belongs_to_the_last_comment_before_it(tmp_path: Path) -> None:
    corrections = read(tmp_path, feed(tmp_path, *PARTS))
    second = ["http://h/2", "http://h/also"]
    assert (corrections.urls, corrections.left) == ({2: second, 3: second, 4: [None]}, [])


def test_replayed_records_are_left_out_and_the_others_keep_their_places(tmp_path: Path) -> None:
    file = feed(tmp_path, *PARTS)
    corrections = read(tmp_path, file, 2, 3)
    assert corrections.urls == {4: [None]}
    [path] = map(Path, corrections.inputs)
    before = (tmp_path / file.path).read_text()
    assert path.read_text() == before.replace(record("2"), " " * len(record("2"))).replace(
        record("also"), " " * len(record("also"))
    )


def test_lines_belong_to_the_rejects_in_their_order(tmp_path: Path) -> None:
    file = ExportedFile(path="001-groups-csv.csv", numbers=[5, 8])
    put(tmp_path / file.path, b"group,member,scope\na,x,user\nb,y,user\n")
    assert read(tmp_path, file).urls == {5: ["a"], 8: ["b"]}
    assert read(tmp_path, file, 5).urls == {8: ["b"]}

    put(tmp_path / file.path, b"group,member,scope\nb,z,user\n")
    assert read(tmp_path, file, 5).urls == {8: ["b"]}
    put(tmp_path / file.path, b"group,member,scope\n")
    with pytest.raises(ConfigError, match=r"others: feedferry rejects export out -o .*-others"):
        read(tmp_path, file, 5)


@pytest.mark.parametrize("text", ["", "&", "<a"])
def test_damaged_bytes_without_a_record_are_left(tmp_path: Path, text: str) -> None:
    put(tmp_path / "raw/1.xml", text.encode())
    file = ExportedFile(path="raw/1.xml", numbers=[1], is_raw=True, head=HEAD, tail=TAIL)
    assert read(tmp_path, file) == Corrections(left=["raw/1.xml"])


REFUSED = Reject(code="refused", reason="x", stage="push", url="http://h/2?a=1&amp;b=2")
CORRECTIONS = Corrections(urls={1: ["http://h/1"], 2: ["http://h/2?a=1&b=2"], 3: [None], 4: []})


def run_with(folder: Path, *rejects: Reject, refused: int = 0) -> Path:
    (folder / "rejects").mkdir()
    (folder / "push/a").mkdir(parents=True)
    file = RejectFile(LocalStorage(folder / "rejects"), "00000-00000.avro")
    for reject in rejects:
        file.add(reject)
    file.close(whole=True)
    write_json(folder / "report.json", {})
    write_json(folder / "push/a/report.json", {"target": "a", "records": {"refused": refused}})
    return folder


def test_a_record_that_was_read_and_not_set_aside_is_converted(tmp_path: Path) -> None:
    run = run_with(tmp_path, REFUSED, refused=1)
    assert converted_numbers(run, CORRECTIONS) == [1]
    put(run / "filtered.jsonl", b'{"code":"a","url":"http://h/1","action":"ADD"}\n')
    assert converted_numbers(run, CORRECTIONS) == []


def test_nothing_counts_as_converted_if_it_is_unknown_what_was_refused(tmp_path: Path) -> None:
    assert converted_numbers(run_with(tmp_path, REFUSED, refused=2), CORRECTIONS) == []
