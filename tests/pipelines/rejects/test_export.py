"""Rejects as files to be corrected: what is whole is in a feed, what is damaged is not touched."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from feedferry.pipelines.rejects.export import Export, cures_without_bytes, export
from feedferry.pipelines.rejects.run_rejects import EVERY_REJECT, RejectFilter, mark_replayed
from feedferry.schemas.avro import carried_bytes
from feedferry.schemas.errors import ConfigError
from feedferry.schemas.record import Action, Provenance, Record
from feedferry.schemas.reject import Reject
from feedferry.transforms.storage.atomic import RejectFile, write_json
from feedferry.transforms.storage.storage import LocalStorage
from support.archives import put

FEED = b"""<?xml version="1.0"?>
<gsafeed>
<header><datasource>wiki</datasource><feedtype> full </feedtype></header>
<group action="delete">
<record url="http://h/1" action="ad"/>
<record url="http://h/2" &/>
</group>
<group>
<record url="relative" mimetype="text/plain"><content>a</content></record>
</group>
</gsafeed>
"""


def at(text: bytes) -> int:
    return FEED.index(text)


ACTION = Reject(
    code="bad-action",
    reason="action='ad'; expected <add>, not --",
    stage="read",
    source="feed.xml",
    line=5,
    offset=at(b'<record url="http://h/1'),
    url="http://h/1",
    data=b'<record url="http://h/1" action="ad"/>',
)
TORN = Reject(
    code="malformed",
    reason="x",
    stage="read",
    source="feed.xml",
    offset=at(b'<record url="http://h/2'),
    data=b'<record url="http://h/2" &/>',
)
RELATIVE = Reject(
    code="url-not-absolute",
    reason="url='relative'; expected another",
    stage="adapt",
    source="feed.xml",
    line=9,
    offset=at(b'<record url="relative'),
    url="relative",
    data=carried_bytes(
        Record(
            url="relative",
            action=Action.ADD,
            provenance=Provenance(source="feed.xml", datasource="wiki", feedtype="full"),
        )
    ),
)
ROW = Reject(
    code="null-url",
    reason="id=3: x",
    stage="read",
    source="people.yaml",
    length=8,
    data=b'{"id":3}',
)


def run_with(folder: Path, *rejects: Reject) -> Path:
    """Return the folder of a run with these rejects, numbered from 1."""
    run = folder / "out"
    (run / "rejects").mkdir(parents=True)
    file = RejectFile(LocalStorage(run / "rejects"), "00000-00000.avro")
    for reject in rejects:
        file.add(reject)
    file.close(whole=True)
    write_json(run / "report.json", {"settings": {}})
    return run


def exported(folder: Path, run: Path, chosen: RejectFilter = EVERY_REJECT) -> Export:
    return export(run, chosen, folder / "corrections", base=folder)


def numbers(bundle: Export) -> dict[str, list[int]]:
    return {file.path: file.numbers for file in bundle.files}


def test_whole_records_are_a_feed_in_their_groups_that_is_not_full(tmp_path: Path) -> None:
    put(tmp_path / "feed.xml", FEED)

    bundle = exported(tmp_path, run_with(tmp_path, ACTION, TORN, RELATIVE))
    assert numbers(bundle) == {"001-gsa-feed.xml": [1, 3], "raw/000002.xml": [2]}
    assert (tmp_path / "corrections/001-gsa-feed.xml").read_text("utf-8").splitlines() == [
        '<?xml version="1.0" encoding="UTF-8"?>',
        "<gsafeed>",
        "<header><datasource>wiki</datasource><feedtype> incremental </feedtype></header>",
        '<group action="delete">',
        "<!-- 1: bad-action: action='ad'; expected  add , not - - -->",
        '<record url="http://h/1" action="ad"/>',
        "</group>",
        "<group>",
        "<!-- 3: url-not-absolute: url='relative'; expected another -->",
        '<record url="relative" mimetype="text/plain"><content>a</content></record>',
        "</group>",
        "</gsafeed>",
    ]


def test_damaged_bytes_are_unchanged_and_their_group_is_known(tmp_path: Path) -> None:
    put(tmp_path / "feed.xml", FEED)

    bundle = exported(tmp_path, run_with(tmp_path, TORN))
    [file] = bundle.files
    assert (tmp_path / "corrections" / file.path).read_bytes() == TORN.data
    assert file.head.endswith('</header><group action="delete">')
    assert (file.tail, file.is_raw) == ("</group></gsafeed>", True)


@pytest.mark.parametrize("text", [None, FEED.replace(b'"ad"', b'"add"').replace(b"\n", b"\r\n")])
def test_without_the_feed_records_are_json_lines_and_other_bytes_stay_as_they_are(
    tmp_path: Path, text: bytes | None
) -> None:
    if text is not None:
        put(tmp_path / "feed.xml", text)

    bundle = exported(tmp_path, run_with(tmp_path, ACTION, RELATIVE, ROW))
    assert sorted(numbers(bundle).values()) == [[1], [2], [3]]
    [records] = (tmp_path / "corrections").glob("*-records.jsonl")
    assert (tmp_path / "corrections/raw/000001.xml").read_bytes() == ACTION.data
    assert '"feedtype":"incremental"' in records.read_text("utf-8")
    assert (tmp_path / "corrections/raw/people.json").read_bytes() == b'{"id":3}\n'


def test_lines_of_tables_and_streams_are_below_their_first_line(tmp_path: Path) -> None:
    put(tmp_path / "groups.csv", b"group,member,scope\nsales,,user\n")
    put(tmp_path / "ids.txt", b"GSA Adaptor Data Version 1 [\n]\nid=a\nid=b\nlast-modified=?\n")
    row = replace(ROW, source="groups.csv", line=2, offset=19, data=b"sales,,user\n")
    document = replace(ROW, source="ids.txt", offset=36, data=b"id=b\nlast-modified=?\n")
    run = run_with(tmp_path, row, document)

    exported(tmp_path, run)
    assert {
        path.name: path.read_text("utf-8") for path in (tmp_path / "corrections").glob("0*")
    } == {
        "001-groups-csv.csv": "group,member,scope\nsales,,user\n",
        "002-lister-stream.txt": ("GSA Adaptor Data Version 1 [\n]\nid=b\nlast-modified=?\n"),
    }


def test_only_chosen_rejects_that_are_new_are_exported_once(tmp_path: Path) -> None:
    run = run_with(tmp_path, ACTION, TORN, Reject(code="stray", reason="", stage="read", data=b"x"))
    mark_replayed(run, [1], "out-replay-1")

    bundle = exported(tmp_path, run, RejectFilter(codes=("bad-action", "malformed")))
    assert numbers(bundle) == {"raw/000002.xml": [2]}
    with pytest.raises(ConfigError, match=r"corrections: exists; expected a new folder$"):
        exported(tmp_path, run)
    with pytest.raises(ConfigError, match=r"out: no rejects to export; "):
        export(run, RejectFilter(codes=("entity",)), tmp_path / "none", base=tmp_path)


def test_rejects_without_bytes_are_not_exported_and_their_cure_is_shown(tmp_path: Path) -> None:
    put(tmp_path / "feed.xml", FEED)  # what cannot be read begins where a record does
    torn = replace(TORN, code="torn-compression", data=b"")
    other = replace(torn, code="file-name", source="docs")
    run = run_with(tmp_path, ACTION, torn, other, torn)

    assert numbers(exported(tmp_path, run)) == {"001-gsa-feed.xml": [1]}
    cures = [
        "file-name: 1 reject without bytes, not exported: 3. Rename the file. Then run again.",
        "torn-compression: 2 rejects without bytes, not exported: 2, 4. Copy the file again. Then"
        " run again.",
    ]
    assert [*cures_without_bytes(run, EVERY_REJECT)] == cures
    with pytest.raises(ConfigError, match="no rejects to export") as caught:
        export(run, RejectFilter(codes=("torn-compression",)), tmp_path / "none", base=tmp_path)
    assert str(caught.value).splitlines()[1:] == cures[1:]
    assert not (tmp_path / "none").exists()


def test_several_rejects_of_a_record_have_one_comment(tmp_path: Path) -> None:
    put(tmp_path / "feed.xml", FEED)
    exported(tmp_path, run_with(tmp_path, ACTION, replace(ACTION, code="stray")))
    text = (tmp_path / "corrections/001-gsa-feed.xml").read_text("utf-8")
    assert "<!-- 1, 2: bad-action: action='ad'; expected  add , not - -; stray: action" in text
