"""Rows as pages of HTML: a plain table, or by a template."""

from datetime import date
from pathlib import Path

import pytest
from lxml import html

from schemas.errors import ConfigError, RecordError
from transforms.sources.database.column_index import Rows
from transforms.sources.database.html import check_page_template, page_maker, table_maker

ROWS = Rows(names=("id", "full name", "note", "photo"), key=("id",))
ANNA = (7, "Anna", "a & b", b"\xff\x00")


def table(*row: object, title: str | None = None, without: tuple[int, ...] = ()) -> str:
    return table_maker(ROWS, without=without, title=title)(row).decode()


def written(folder: Path, text: str, name: str = "page.html.j2") -> Path:
    path = folder / name
    path.write_text(text, "utf-8")
    return path


def page(folder: Path, text: str, *row: object, max_bytes: int = 1000) -> bytes:
    return page_maker(written(folder, text), ROWS, max_bytes=max_bytes)(row or ANNA)


def failure(folder: Path, text: str) -> str:
    """What is said of a template that fails for a row."""
    with pytest.raises(RecordError) as caught:
        page(folder, text)
    assert caught.value.code == "template"
    return caught.value.reason


def refusal(path: Path) -> str:
    with pytest.raises(ConfigError) as caught:
        check_page_template(path)
    return str(caught.value)


def test_a_row_is_a_table() -> None:
    expected = """\
<!DOCTYPE html>
<html>
<head>
<meta charset="utf-8">
<title>Anna</title>
</head>
<body>
<table>
<tr><th>id</th><td>7</td></tr>
<tr><th>full name</th><td>Anna</td></tr>
<tr><th>note</th><td>a &amp; b</td></tr>
<tr><th>photo</th><td>2 bytes</td></tr>
</table>
</body>
</html>
"""
    assert table(*ANNA, title="full name") == expected


def test_null_and_some_columns_have_no_line() -> None:
    expected = """\
<!DOCTYPE html>
<html>
<head>
<meta charset="utf-8">
</head>
<body>
<table>
<tr><th>id</th><td>7</td></tr>
</table>
</body>
</html>
"""
    assert table(7, "Anna", None, None, without=(1,)) == expected


def test_values_are_as_in_metadata() -> None:
    assert "<td>2026-01-31</td>" in table(7, date(2026, 1, 31), None, None)


def test_many_values_stand_in_one_line() -> None:
    assert "<td>a, b</td>" in table(7, ["a", "b"], None, None)


def test_no_value_is_markup() -> None:
    found = html.document_fromstring(table(7, "</td><script>x</script>", None, None))
    assert found.xpath("//td/text()") == ["7", "</td><script>x</script>"]


def test_no_name_of_a_column_is_markup() -> None:
    make = table_maker(Rows(names=("<b>",)), without=(), title=None)
    assert b"<th>&lt;b&gt;</th>" in make((1,))


def test_what_utf_8_cannot_hold_is_replaced() -> None:
    assert "<td>a\ufffdb</td>" in table(7, "a\ud800b", None, None)


def test_a_template_has_the_columns(tmp_path: Path) -> None:
    text = "<h1>{{ row['full name'] }}</h1>{% if note %}{{ note }}{% endif %} {{ id + 1 }}\n"
    assert page(tmp_path, text) == b"<h1>Anna</h1>a &amp; b 8\n"


def test_null_is_none_in_a_template(tmp_path: Path) -> None:
    assert page(tmp_path, "{{ note is none }}", 7, "Anna", None, None) == b"True"


def test_a_template_is_utf_8_and_so_is_its_page(tmp_path: Path) -> None:
    assert page(tmp_path, "é{{ note }}", 7, "Anna", "ü", None) == "éü".encode()


def test_a_template_may_include_what_is_beside_it(tmp_path: Path) -> None:
    written(tmp_path, "<p>{{ id }}</p>", "foot.html")
    assert page(tmp_path, "{% include 'foot.html' %}") == b"<p>7</p>"


def test_a_page_ends_soon_after_its_bound(tmp_path: Path) -> None:
    text = "{% for i in range(100000) %}0123456789{% endfor %}"
    assert len(page(tmp_path, text, max_bytes=1000)) == 1010


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "\n\n{{ nmae }}",
            "page.html.j2:3: UndefinedError: 'nmae' is undefined; expected a page of each row",
        ),
        ("{{ id / 0 }}", "page.html.j2:1: ZeroDivisionError; expected a page of each row"),
        ("{{ note | int + note }}", "page.html.j2:1: TypeError; expected a page of each row"),
        (
            "{{ note.__class__.__mro__ }}",
            "page.html.j2:1: SecurityError: access to attribute '__class__' of 'str' object is "
            "unsafe.; expected a page of each row",
        ),
        (
            "{% include '../secret.txt' %}",
            "page.html.j2:1: TemplateNotFound: ../secret.txt; expected a page of each row",
        ),
        (
            "{% for i in range(1000000000) %}x{% endfor %}",
            "page.html.j2:1: OverflowError; expected a page of each row",
        ),
    ],
)
def test_a_template_that_fails_says_where(tmp_path: Path, text: str, expected: str) -> None:
    assert failure(tmp_path, text) == expected


def test_a_template_that_does_not_parse_says_where(tmp_path: Path) -> None:
    path = written(tmp_path, "\n{% if %}")
    expected = f"{path}:2: Expected an expression, got 'end of statement block'"
    assert refusal(path) == f"{expected}; expected a Jinja2 template"


def test_a_template_that_is_missing_is_told(tmp_path: Path) -> None:
    path = tmp_path / "none.j2"
    assert refusal(path) == f"{path}: no such file; expected a Jinja2 template"


def test_a_template_that_is_a_folder_is_told(tmp_path: Path) -> None:
    path = tmp_path / "folder.j2"
    path.mkdir()
    assert refusal(path) == f"{path}: no such file; expected a Jinja2 template"


def test_a_template_that_is_not_utf_8_is_told(tmp_path: Path) -> None:
    path = tmp_path / "page.j2"
    path.write_bytes(b"\xff")
    assert refusal(path) == f"{path}: not UTF-8; expected a Jinja2 template"


def test_a_template_that_is_there_is_not_refused(tmp_path: Path) -> None:
    check_page_template(written(tmp_path, "{{ nmae }}"))
