"""Names of files and members of archives that are not UTF-8, or do not say that they are."""

import io
import json
import os
import shutil
import tarfile
import zipfile
from base64 import b64decode
from pathlib import Path

import pytest

from support.archives import put
from support.runs import chunks, convert, report

URL = "https://docs.example.com/"
STATE = ("--from", "files", "--base-url", URL, "--to", "jsonl", "--state", "docs.state")
OPENED = (*STATE, "--open-archives")
CP932 = ("--name-charset", "cp932")
SO_TXT = "ソ能.txt"  # in CP932, the second byte of the first two characters is a backslash
QUOTED = "%E3%82%BD%E8%83%BD.txt"

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("here")]


def sent(name: str, *flags: str, code: int = 0) -> dict[str, str]:
    """Convert the folder `docs`; return the contents of its records by path."""
    assert convert("docs", *flags, "-o", name) == code
    records = [json.loads(line) for chunk in chunks(name) for line in chunk.splitlines()]
    return {
        record["url"].removeprefix(URL): b64decode(record["content"]["data"]).decode()
        if record["action"] == "ADD"
        else "-"
        for record in records
    }


def notices(name: str) -> dict[str, int]:
    stated = report(name)["account"]["notices"]
    return {code: notice["count"] for code, notice in stated.items()}


def put_zip(path: Path, *names: bytes) -> None:
    """Write a zip archive as a program does that states no charset of names."""
    placeholders = [chr(ord("A") + number) * len(name) for number, name in enumerate(names)]
    with io.BytesIO() as stream:
        with zipfile.ZipFile(stream, "w") as archive:
            for placeholder in placeholders:
                info = zipfile.ZipInfo(placeholder)
                info.create_system = 0  # FAT, as of Windows
                archive.writestr(info, "text")
        data = stream.getvalue()
    for placeholder, name in zip(placeholders, names, strict=True):
        data = data.replace(placeholder.encode(), name)
    put(path, data)


def age(path: Path) -> None:
    os.utime(path, ns=(0, 1_700_000_000 * 10**9))


def test_a_name_in_a_zip_archive_is_utf_8_if_its_bytes_are(here: Path) -> None:
    put_zip(here / "docs/a.zip", "Ä/größe.txt".encode(), b"plain.txt")
    assert sent("first", *OPENED) == {
        "a.zip/%C3%84/gr%C3%B6%C3%9Fe.txt": "text",
        "a.zip/plain.txt": "text",
    }
    assert notices("first") == {}
    assert sent("second", *OPENED) == {}


def test_another_name_in_a_zip_archive_is_a_notice_or_has_the_given_charset(here: Path) -> None:
    put_zip(here / "docs/a.zip", SO_TXT.encode("cp932"), b"dir\\x.txt")
    first = sent("first", *OPENED, "--hidden")
    wrong = "a.zip/%C3%A2/%C3%B6/.txt"
    assert set(first) == {wrong, "a.zip/dir/x.txt"}
    assert notices("first") == {"name-charset": 1}
    detail = report("first")["account"]["notices"]["name-charset"]["first"]["detail"]
    assert detail.endswith(": not UTF-8, read as CP437; --name-charset states another")
    second = sent("second", *OPENED, "--hidden", *CP932)
    assert second == {wrong: "-", f"a.zip/{QUOTED}": "text", "a.zip/dir/x.txt": "text"}
    assert notices("second") == {}
    assert sent("third", *OPENED, "--hidden", *CP932) == {}


def test_one_charset_is_for_folders_tar_and_zip_alike(here: Path) -> None:
    raw = SO_TXT.encode("cp932")
    folder = os.fsencode(here / "docs") + b"/" + "ソ".encode("cp932")
    os.makedirs(folder)
    for name in (raw, "é.txt".encode()):
        Path(os.fsdecode(folder + b"/" + name)).write_bytes(b"text")
    sidecar = os.fsdecode(folder + b"/" + raw + b".meta.json")
    Path(sidecar).write_bytes(b'{"Author": "Ida"}')
    put_zip(here / "docs/a.zip", raw)
    with tarfile.open(here / "docs/b.tar", "w", encoding="cp932", format=tarfile.GNU_FORMAT) as tar:
        info = tarfile.TarInfo(SO_TXT)
        info.size = 4
        tar.addfile(info, io.BytesIO(b"text"))
    for path in (here / "docs").rglob("*"):
        age(path)
    flags = (*OPENED, *CP932)
    both = {"%E3%82%BD/%C3%A9.txt": "text", f"%E3%82%BD/{QUOTED}": "text"}
    assert sent("first", *flags) == {
        **both,
        f"a.zip/{QUOTED}": "text",
        f"b.tar/{QUOTED}": "text",
    }
    record = next(line for line in chunks("first")[0].splitlines() if b'"Author"' in line)
    assert json.loads(record)["metadata"] == [{"name": "Author", "value": "Ida"}]
    assert sent("second", *flags) == {}
    Path(os.fsdecode(folder + b"/" + raw)).write_bytes(b"next")
    assert sent("third", *flags) == {f"%E3%82%BD/{QUOTED}": "next"}
    shutil.rmtree(folder)
    assert sent("fourth", *flags, "--max-delete-percent", "100") == dict.fromkeys(both, "-")


@pytest.mark.parametrize("acl", ["posix", "posix-inherited"])
def test_a_decoded_name_has_the_acl_of_its_file_and_inherits_by_its_url(
    here: Path, acl: str
) -> None:
    folder = os.fsencode(here / "docs") + b"/gr\xf6\xdfe"
    os.makedirs(folder)
    os.close(os.open(folder + b"/\xfc.txt", os.O_CREAT, 0o600))
    Path(os.fsdecode(folder + b"/\xfc.txt")).write_bytes(b"text")
    flags = (*STATE, "--name-charset", "latin-1", "--acl", acl)
    convert("docs", *flags, "-o", "out")
    records = [json.loads(line) for line in chunks("out")[0].splitlines()]
    record = next(one for one in records if one["url"].endswith("%C3%BC.txt"))
    assert record["url"] == f"{URL}gr%C3%B6%C3%9Fe/%C3%BC.txt"
    assert [one["access"] for one in record["acl"]["principals"]] == ["PERMIT"]
    above = record["acl"].get("inherit_from")
    assert above == (f"{URL}gr%C3%B6%C3%9Fe/" if acl == "posix-inherited" else None)


def test_a_name_that_is_decoded_to_that_of_another_file_is_rejected(here: Path) -> None:
    put(here / "docs/é.txt", b"utf-8")
    Path(os.fsdecode(os.fsencode(here / "docs") + b"/\xe9.txt")).write_bytes(b"latin-1")
    flags = (*STATE, "--name-charset", "latin-1")
    assert sent("first", *flags, code=1) == {"%C3%A9.txt": "utf-8"}
    assert report("first")["account"]["reject_codes"] == {"file-name": 1}
    assert sent("second", *STATE, "--name-charset", "cp932", code=1) == {"%C3%A9.txt": "utf-8"}
    assert sent("third", *STATE, "--name-charset", "utf-16", code=1) == {"%C3%A9.txt": "utf-8"}


def test_a_charset_of_names_that_is_not_known_is_refused(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(here / "docs/a.txt", b"text")
    assert convert("docs", *STATE, "--name-charset", "cp-932x", "-o", "out") == 2
    assert "--name-charset: 'cp-932x'; expected a charset such as" in capsys.readouterr().err
