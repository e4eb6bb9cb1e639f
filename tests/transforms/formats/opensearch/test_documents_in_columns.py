"""Documents that are alike are written in columns, to the bytes of single ones."""

import logging
import re
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from feedferry.pipelines.convert.inputs.step_inputs import SpanInputs
from feedferry.schemas.span import Span
from feedferry.transforms.formats import ReadOptions
from feedferry.transforms.rules.adapt import Target
from feedferry.transforms.steps import read_steps
from support.batches import by_parser, conversion
from support.varied_feeds import feed

OPENSEARCH = Target(format="opensearch")
ALIKE = '<meta name="Author" content="Ann {0}"/><meta name="Title" content="Quay &amp; {0}"/>'
TEXT = "<content>Ships &lt;{0}&gt;</content>"
UMLAUTS = "\u00fc" * 16_000
"""A value that takes 32,000 bytes, which is cut with any name."""


def document(
    number: int,
    *,
    metas: str = ALIKE,
    content: str = TEXT,
    mimetype: str = "text/plain",
    path: str = "",
) -> str:
    inner = f"<metadata>{metas.format(number)}</metadata>{content.format(number)}"
    url = f"http://www.example.com/{path}{number}?a=1&amp;b=2"
    date = f"Tue, 06 Nov 2007 12:45:{number % 60:02} GMT"
    return f'<record url="{url}" mimetype="{mimetype}" last-modified="{date}">{inner}</record>\n'


def varied_metas(number: int) -> str:
    names = [name for name in range(8) if (number * 7 >> name) % 2] or [0]
    return "".join(f'<meta name="varied{name}" content="a &amp; {{0}}"/>' for name in names)


def varied(number: int, **stated: str) -> str:
    """A document whose metadata differ from those of its neighbours."""
    return document(number, metas=varied_metas(number), **stated)


def alone(records: list[str], caplog: pytest.LogCaptureFixture, **stated: Any) -> int:
    """How many documents of a feed go alone but for its begin; all are as by the parser."""
    data = feed("".join(records), feedtype="incremental")
    with by_parser():
        single = conversion(data, OPENSEARCH, batch_records=0, **stated)
    for size in (1024, 7):
        caplog.clear()
        caplog.set_level(logging.DEBUG, "feedferry.transforms.conversion.convert")
        assert conversion(data, OPENSEARCH, batch_records=size, **stated) == single
    [count] = re.findall(r" records by a plan, .* (\d+) one by one", caplog.text)
    return int(count) - (1 if "varied" in data.decode() else 7)


def prepared(records: list[str], folder: Path) -> dict[str, Any]:
    """The step `acl: decision`, which has read a feed."""
    source, stated = folder / "source.xml", folder / "steps.yaml"
    source.write_bytes(feed("".join(records), feedtype="incremental"))
    stated.write_text("transform: [acl: decision]\n")
    steps = read_steps(stated)
    span = Span(source="f", path=str(source), format="gsa-feed")
    steps.prepare(SpanInputs([span], ReadOptions()), folder)
    return {"steps": steps, "local_folder": str(folder)}


@pytest.mark.parametrize("make", [document, varied])
def test_texts_are_written_in_columns(make: Any, caplog: pytest.LogCaptureFixture) -> None:
    assert alone([make(n) for n in range(200)], caplog) == 0


@pytest.mark.parametrize("make", [document, varied])
def test_a_step_that_decides_about_acls_leaves_documents_without_them_in_columns(
    make: Any, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    records = [make(n) for n in range(200)]
    assert alone(records, caplog, **prepared(records, tmp_path)) == 0


@pytest.mark.parametrize("make", [document, varied])
def test_an_acl_that_came_alone_counts_for_a_document_in_columns(
    make: Any, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    principal = '<principal scope="user" access="permit">eve</principal>'
    acl = f'<acl url="http://www.example.com/77?a=1&amp;b=2">{principal}</acl>\n'
    records = [make(n) for n in range(200)]
    stated = prepared([acl, *records], tmp_path)
    assert alone(records, caplog, **stated) >= 193
    data = feed("".join(records), feedtype="incremental")
    chunks = conversion(data, OPENSEARCH, batch_records=1024, **stated).files.values()
    lines = b"".join(chunks).splitlines()
    [hidden] = [line for line in lines if b'"acl_1_permit_1":["us:Default:eve"]' in line]
    assert b'"url":"http://www.example.com/77?a=1&b=2"' in hidden


@pytest.mark.parametrize("make", [document, varied])
@pytest.mark.parametrize("form", ["<content>{}</content>", "<content><![CDATA[{}]]></content>"])
@pytest.mark.parametrize("begin", ["\ufeff", "<?xml version='1.0' encoding='windows-1252'?>\u00fc"])
def test_a_text_that_may_state_a_charset_goes_alone(
    begin: str, form: str, make: Any, caplog: pytest.LogCaptureFixture
) -> None:
    escaped = begin.replace("<", "&lt;") if "CDATA" not in form else begin
    others = {10: form.format(f"{escaped} ships"), 90: form.format(f" {escaped}")}
    records = [make(n, content=others.get(n, form.format("ships {0}"))) for n in range(200)]
    assert alone(records, caplog) == 2


@pytest.mark.parametrize("make", [document, varied])
def test_a_document_in_base64_that_is_no_text_in_utf8_goes_alone(
    make: Any, caplog: pytest.LogCaptureFixture
) -> None:
    def content(data: bytes) -> str:
        return f'<content encoding="base64binary">{b64encode(data).decode()}</content>'

    others = {10: b"\xff\xfeq\0", 90: b"\xef\xbb\xbfquay", 91: b"Z\xfcrich", 92: b"a\0b"}
    records = [make(n, content=content(others.get(n, b"ships"))) for n in range(200)]
    assert alone(records, caplog) == 3  # a zero is a character


@pytest.mark.parametrize("make", [document, varied])
@pytest.mark.parametrize("mimetype", ["text/html", "application/xhtml+xml", "message/rfc822", ""])
def test_documents_whose_text_is_not_their_bytes_go_alone(
    mimetype: str, make: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """The first ones have no markup, so that they look like plain texts."""
    markup = "<content><![CDATA[<title>T</title><p>{0}</p>]]></content>"
    records = [
        make(n, mimetype=mimetype, content=TEXT if n < 50 else markup) if n % 3 else make(n)
        for n in range(300)
    ]
    assert alone(records, caplog) in (196, 200)  # but for those of the first batch


@pytest.mark.parametrize("make", [document, varied])
@pytest.mark.parametrize(
    "path", ["a" * 460, "a" * 490, "a" * 500, "\u00fc" * 240, "\u00fc" * 250, "&amp;" * 480]
)
def test_a_url_that_may_be_too_long_for_an_id_goes_alone(
    path: str, make: Any, caplog: pytest.LogCaptureFixture
) -> None:
    records = [make(n, path=path if n in (10, 90, 91) else "") for n in range(200)]
    assert alone(records, caplog) == (0 if path == "a" * 460 else 3)


@pytest.mark.parametrize("value", ["x" * 4000, "x" * 4001, UMLAUTS, "x" * 40_000])
def test_a_document_with_a_value_that_may_be_cut_goes_alone(
    value: str, caplog: pytest.LogCaptureFixture
) -> None:
    long = f'<meta name="Author" content="{value}"/><meta name="Title" content="b"/>'
    records = [document(n, metas=long if n in (10, 90, 91) else ALIKE) for n in range(200)]
    assert alone(records, caplog) == (0 if len(value) == 4000 else 3)


@pytest.mark.parametrize("length", [3000, 4000, 5000, 15_000, 31_000, 33_000])
def test_a_long_name_of_metadata_takes_of_the_room_of_its_value(
    length: int, caplog: pytest.LogCaptureFixture
) -> None:
    name = f'<meta name="{"n" * length}" content="'
    records = [document(n, metas=f'{name}{"v" * (4 * n)}"/>') for n in range(1, 900, 10)]
    assert alone(records, caplog) == (0 if length == 3000 else 83)


def test_documents_that_state_metadata_twice_go_alone(caplog: pytest.LogCaptureFixture) -> None:
    again = '<meta  name="varied0"  content="x{0}"/><meta name="varied1" content="y"/>'
    records = [
        document(n, metas=varied_metas(n) + again * (n % 5 == 3 and n * 7 % 4 > 0))
        for n in range(200)
    ]
    assert alone(records, caplog) == 30


def acl(number: int, *, parent: str = "", attributes: str = "") -> str:
    """An ACL of one to three principals; some of them are named twice, or denied as well."""
    if parent:
        attributes += f' inherit-from="http://www.example.com/{parent}"'
    accesses = ("permit", "deny", "permit")[: 1 + number % 3]
    names = [f"EXAMPLE\\u{(number // 7 + at) % 11 % (2 + number % 5)} &amp;" for at in range(3)]
    principals = "".join(
        f'<principal scope="{"group" if at else "user"}" access="{access}">{name}</principal>'
        for at, (access, name) in enumerate(zip(accesses, names, strict=False))
    )
    return f"<acl{attributes}>{principals}</acl>"


def folder(name: str, *, parent: str = "") -> str:
    tag = f'<acl url="http://www.example.com/{name}" inheritance-type="child-overrides"'
    return acl(1, parent=parent).replace("<acl", tag) + "\n"


@pytest.mark.parametrize("make", [document, varied])
@pytest.mark.parametrize("has_step", [False, True])
def test_documents_with_acls_are_written_in_columns(
    has_step: bool, make: Any, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    records = [make(n, content=f"{TEXT}{acl(n)}" if n % 4 else TEXT) for n in range(400)]
    stated = prepared(records, tmp_path) if has_step else {}
    assert alone(records, caplog, **stated) == (-6 if make is document else 0)


def test_documents_that_inherit_are_written_in_columns(
    caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    """Documents without an ACL may have one that came alone, and go alone."""
    folders = [folder("a/"), folder("b/", parent="a/"), folder("c/", parent="none/")]
    content = {n: f"{TEXT}{acl(n, parent='ab'[n % 2] + '/')}" for n in range(400) if n % 5}
    content[30] = f"{TEXT}{acl(30, parent='c/')}"
    records = [varied(n, content=content.get(n, TEXT)) for n in range(400)]
    stated = prepared([*folders, *records], tmp_path)
    assert alone(records, caplog, **stated) == 79


def test_an_acl_that_came_alone_counts_for_a_document_next_to_others_with_acls(
    caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    principal = '<principal scope="user" access="permit">eve</principal>'
    alone_of_77 = f'<acl url="http://www.example.com/77?a=1&amp;b=2">{principal}</acl>\n'
    records = [varied(n, content=f"{TEXT}{acl(n)}" if n % 2 == 0 else TEXT) for n in range(200)]
    stated = prepared([alone_of_77, *records], tmp_path)
    assert alone(records, caplog, **stated) == 100
    data = feed("".join(records), feedtype="incremental")
    chunks = conversion(data, OPENSEARCH, batch_records=1024, **stated).files.values()
    [hidden] = [line for line in b"".join(chunks).splitlines() if b":eve" in line]
    assert b'"url":"http://www.example.com/77?a=1&b=2"' in hidden


def test_documents_with_acls_that_permit_no_user_go_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    denied = '<acl><principal scope="user" access="deny">eve</principal></acl>'
    records = [varied(n, content=f"{TEXT}{denied if n % 5 == 0 else acl(n)}") for n in range(200)]
    assert alone(records, caplog) == 39


def test_metadata_that_are_an_acl_are_not_written_as_metadata_next_to_acls(
    caplog: pytest.LogCaptureFixture,
) -> None:
    meta = '<meta name="google:aclusers" content="eve"/>'
    records = [
        document(n, metas=ALIKE + meta * (n % 5 == 1), content=f"{TEXT}{acl(n) * (n % 2)}")
        for n in range(200)
    ]
    assert alone(records, caplog) == 34


def test_documents_with_two_acls_go_alone(caplog: pytest.LogCaptureFixture) -> None:
    records = [varied(n, content=f"{TEXT}{acl(n) * (1 + (n % 5 == 1))}") for n in range(200)]
    assert alone(records, caplog) == 40


def test_documents_that_are_lost_are_written_in_columns(caplog: pytest.LogCaptureFixture) -> None:
    packed = f'<content encoding="base64binary">{b64encode(b"%PDF-1.4").decode()}</content>'
    records = [document(n, mimetype="application/pdf", content=packed) for n in range(200)]
    assert alone(records, caplog) == 0
