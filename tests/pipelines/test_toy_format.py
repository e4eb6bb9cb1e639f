"""A format that is added from outside: no other module knows it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from feedferry.pipelines.cli.main import main
from feedferry.testing.scripted_server import ScriptedReply, ScriptedRequest, scripted_server
from feedferry.transforms.formats import by_name, registered, sniff
from support.runs import chunks, column, convert, report
from support.toy_format import TOY

pytestmark = pytest.mark.slow

DOCUMENTS = (
    b"url: http://intranet.example.com/harbour\n"
    b"title: The harbour\n"
    b"text: Ships call on Mondays.\n"
    b"\n"
    b"url: http://intranet.example.com/quay\n"
    b"action: delete\n"
    b"\n"
)
FEED = (
    b"<gsafeed><header><datasource>harbour</datasource><feedtype>incremental</feedtype></header>"
    b'<group><record url="http://intranet.example.com/harbour" mimetype="text/plain">'
    b"<metadata><meta name='berth' content='4'/></metadata>"
    b"%s<content>Ships call on Mondays.</content></record></group></gsafeed>"
)
TO_TOY = ("--to", "toy")
ACL = b'<acl><principal scope="user" access="permit">joe</principal></acl>'


@pytest.fixture(autouse=True)
def _registered() -> Iterator[None]:
    with registered(TOY):
        yield


def test_the_format_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    main(["formats"])
    line = "toy                read/write  blocks of name: value lines\n"
    assert line in capsys.readouterr().out


@pytest.mark.parametrize("name", ["avro", "jsonl"])
def test_documents_of_the_format_pass_through_another_format(tmp_path: Path, name: str) -> None:
    source, other, again = tmp_path / "in.txt", tmp_path / "other", tmp_path / "again"
    source.write_bytes(DOCUMENTS)

    assert sniff(DOCUMENTS) == "toy"
    assert convert(str(source), "-o", str(other), "--to", name) == 0
    assert convert(str(other / "chunks"), "-o", str(again), *TO_TOY) == 0

    assert chunks(again) == [DOCUMENTS]
    assert column(again, "format") == ["toy"]


def test_a_large_file_is_converted_in_spans(tmp_path: Path) -> None:
    source, out = tmp_path / "in.txt", tmp_path / "out"
    source.write_bytes(DOCUMENTS * 100)

    assert convert(str(source), "-o", str(out), *TO_TOY, "--span-bytes", "4KiB") == 0

    assert b"".join(chunks(out)) == DOCUMENTS * 100
    assert len(chunks(out)) > 1


def test_documents_of_the_format_are_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "in.txt"
    source.write_bytes(DOCUMENTS + b"no pair\n")

    assert main(["inspect", str(source)]) == 1
    first, *lines = capsys.readouterr().out.splitlines()
    assert first.split() == ["ADD", "DELETE", "total"]
    assert lines[0].split() == ["-", "1", "1", "2"]
    assert any(line.startswith("reject     bad-block: 1") for line in lines)


def test_a_plan_and_a_table_of_losses_have_the_format(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "in.txt"
    source.write_bytes(DOCUMENTS)

    assert main(["plan", str(source), *TO_TOY]) == 0
    assert "http://intranet.example.com/quay" in capsys.readouterr().out
    assert main(["formats", "gsa-feed", "toy"]) == 0
    assert "acl" in capsys.readouterr().out


def test_an_acl_that_the_format_does_not_hold_stops_the_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, out = tmp_path / "in.xml", tmp_path / "out"
    source.write_bytes(FEED % ACL)

    assert convert(str(source), "-o", str(out), "--to", "toy") == 3
    assert "acl: 1 principal; --accept-loss acl goes on without it" in capsys.readouterr().err


def test_a_text_that_the_format_holds_as_content_is_kept(tmp_path: Path) -> None:
    source, out = tmp_path / "in.xml", tmp_path / "out"
    source.write_bytes(
        b"<ThunderstoneReplication><Item><Type>I</Type><Url>http://intranet.example.com/quay</Url>"
        b"<Body>Ships call on Mondays.</Body></Item></ThunderstoneReplication>"
    )

    assert convert(str(source), "-o", str(out), *TO_TOY) == 0
    assert chunks(out) == [
        b"url: http://intranet.example.com/quay\ntext: Ships call on Mondays.\n\n"
    ]


def test_every_other_field_is_a_loss(tmp_path: Path) -> None:
    source, out = tmp_path / "in.xml", tmp_path / "out"
    source.write_bytes(FEED % ACL)

    assert convert(str(source), "-o", str(out), "--to", "toy", "--accept-loss", "acl") == 0
    assert sorted(report(out)["account"]["losses"]) == ["acl", "metadata"]


def test_an_appliance_takes_the_formats_of_its_endpoints_only(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, out = tmp_path / "in.txt", tmp_path / "out"
    source.write_bytes(DOCUMENTS)
    convert(str(source), "-o", str(out), *TO_TOY)
    posted: list[ScriptedRequest] = []

    def accept(request: ScriptedRequest) -> ScriptedReply:
        if request.method == "POST":
            posted.append(request)
        return ScriptedReply(body=b"Success" if request.method == "POST" else b"0")

    with scripted_server(accept) as url:
        assert main(["push", str(out), "--to", url, "-q", "--progress", "none"]) == 2
    assert posted == []
    assert capsys.readouterr().err == (
        f"feedferry: chunks/000001.toy: toy; expected gsa-feed or gsa-groups for {url}\n"
    )


def test_a_name_is_registered_once_and_for_the_block_only() -> None:
    with pytest.raises(ValueError, match="'toy' is in use; expected another name"), registered(TOY):
        pass
    assert by_name("toy") is TOY
