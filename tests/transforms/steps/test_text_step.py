"""`text`: a document becomes its text, or keeps its content if it cannot be read."""

import io
import zipfile
from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from feedferry.schemas.content import to_base64
from feedferry.schemas.record import Action, Content, Encoding, Record
from feedferry.transforms.steps.text_step import TextRules, TextStep

RECORD = Record(url="http://docs.example.com/a", action=Action.ADD)
MAIL = (
    b"Subject: The\n quay\nContent-Type: multipart/alternative; boundary=b\n\n"
    b"--b\nContent-Type: text/html\n\n<p>Ships in HTML</p>\n"
    b"--b\nContent-Type: text/plain; charset=iso-8859-1\n\nShips f\xfcr all\n--b--\n"
)
DOCX = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"


def pdf(text: str) -> bytes:
    """A PDF of one page."""
    page = f"BT /F1 12 Tf 72 720 Td ({text}) Tj ET"
    objects = [
        "<</Type/Catalog/Pages 2 0 R>>",
        "<</Type/Pages/Kids[3 0 R]/Count 1>>",
        "<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Contents 4 0 R"
        "/Resources<</Font<</F1 5 0 R>>>>>>",
        f"<</Length {len(page)}>>stream\n{page}\nendstream",
        "<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
    ]
    body = "".join(f"{number} 0 obj{text}endobj\n" for number, text in enumerate(objects, 1))
    return f"%PDF-1.4\n{body}trailer<</Root 1 0 R/Size 6>>\n%%EOF".encode()


def docx(text: str) -> bytes:
    names = "http://schemas.openxmlformats.org"
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr(
            "[Content_Types].xml",
            f'<Types xmlns="{names}/package/2006/content-types"><Default Extension="rels" '
            'ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
            f'<Override PartName="/word/document.xml" ContentType="{DOCX}.main+xml"/></Types>',
        )
        archive.writestr(
            "_rels/.rels",
            f'<Relationships xmlns="{names}/package/2006/relationships"><Relationship Id="r1" '
            f'Type="{names}/officeDocument/2006/relationships/officeDocument" '
            'Target="word/document.xml"/></Relationships>',
        )
        archive.writestr(
            "word/document.xml",
            f'<w:document xmlns:w="{names}/wordprocessingml/2006/main"><w:body><w:p><w:r>'
            f"<w:t>{text}</w:t></w:r></w:p></w:body></w:document>",
        )
    return packed.getvalue()


@pytest.fixture
def step() -> Iterator[TextStep]:
    made = TextStep(TextRules())
    yield made
    made.close()


def document(data: bytes, mimetype: str | None) -> Record:
    return replace(RECORD, content=Content(data), mimetype=mimetype)


@pytest.mark.parametrize(
    ("data", "mimetype", "title", "body"),
    [
        (b"Ships.", "text/plain", None, "Ships."),
        (b"<title>Quay</title><p>Ships<p>all", "text/html; charset=utf-8", "Quay", "Ships\nall"),
        (MAIL, "message/rfc822", "The quay", "Ships f\u00fcr all"),
        (b"Subject: none\n\nplain", "message/rfc822", "none", "plain"),
    ],
)
def test_texts_mails_and_html_become_a_body(
    step: TextStep, data: bytes, mimetype: str, title: str | None, body: str
) -> None:
    made = step.apply(document(data, mimetype))
    assert (made.title, made.body, made.content, made.mimetype) == (title, body, None, mimetype)


def test_a_title_and_a_body_that_are_stated_stay(step: TextStep) -> None:
    stated = replace(document(b"<title>Quay</title>x", "text/html"), title="Stated")
    assert step.apply(stated).title == "Stated"
    with_body = replace(stated, body="stated")
    assert step.apply(with_body) is with_body


@pytest.mark.slow
def test_a_process_reads_pdf_and_office(step: TextStep) -> None:
    encoded = replace(
        document(b"", "application/pdf"),
        content=Content(to_base64(Content(pdf("Ships of all ages"))), Encoding.BASE64),
    )
    read = step.apply(encoded)
    assert (read.body, read.content) == ("Ships of all ages", None)
    assert "Ships in a letter" in str(step.apply(document(docx("Ships in a letter"), DOCX)).body)


@pytest.mark.slow
def test_a_document_that_cannot_be_read_stays_and_the_next_one_is_read(step: TextStep) -> None:
    damaged = document(b"%PDF-1.4 damaged", "application/pdf")
    assert step.apply(damaged) is damaged
    assert step.apply(document(pdf("good"), "application/pdf")).body == "good"


@pytest.mark.slow
@pytest.mark.parametrize(
    "rules", [TextRules(timeout=0.001), TextRules(max_memory=1 << 20), TextRules(max_bytes=10)]
)
def test_a_document_beyond_a_limit_stays(rules: TextRules) -> None:
    step = TextStep(rules)
    large = document(pdf("text"), "application/pdf")
    assert [step.apply(large) is large for _ in range(2)] == [True, True]
    step.close()


@pytest.mark.parametrize("mimetype", ["image/png", "application/zip"])
def test_other_types_stay(step: TextStep, mimetype: str) -> None:
    record = document(b"\x89PNG\0", mimetype)
    assert step.apply(record) is record
