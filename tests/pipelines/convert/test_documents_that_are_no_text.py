"""A document that is no text stops a conversion for an index, unless a pipeline reads it."""

import json
from pathlib import Path
from typing import Any

import pytest

from support.archives import put
from support.runs import convert, report

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("here")]

FEED = """\
<gsafeed><header><datasource>docs</datasource><feedtype>incremental</feedtype></header><group>
<record url="http://a.example.com/p" mimetype="application/pdf">
<metadata><meta name="Author" content="Ann"/></metadata>
<content encoding="base64binary">JVBERi0xLjQK/wD/</content></record>
</group></gsafeed>
"""


def converted(*flags: str) -> int:
    put(Path("a.xml"), FEED.encode())
    return convert("a.xml", "-o", "out", "--to", "opensearch", *flags)


def lines() -> list[Any]:
    [path] = Path("out/chunks").iterdir()
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def test_without_a_pipeline_the_run_stops_and_names_what_reads_the_document(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert converted() == 3
    error = capsys.readouterr().err
    assert "12 bytes of application/pdf, which are no text; the step `text` or target" in error
    assert "--accept-loss content goes on without it" in error
    assert not Path("out/chunks").exists()


def test_an_accepted_loss_leaves_the_other_fields() -> None:
    assert converted("--accept-loss", "content") == 0
    _, document = lines()
    assert (document["meta"], "data" in document) == ({"Author": ["Ann"]}, False)
    assert report("out")["account"]["losses"]["content"]["count"] == 1


def test_a_pipeline_gets_the_document_in_base64() -> None:
    assert converted("--set", "target.pipeline=attachment") == 0
    action, document = lines()
    assert action["index"]["pipeline"] == "attachment"
    assert document["data"] == "JVBERi0xLjQK/wD/"
    assert report("out")["account"]["losses"] == {}


def test_metadata_of_the_user_become_fields_of_their_own() -> None:
    assert converted("--accept-loss", "content", "--field", "author=writer") == 0
    _, document = lines()
    assert (document["writer"], "meta" in document) == (["Ann"], False)
