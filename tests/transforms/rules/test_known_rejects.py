"""Lists of known rejects: their lines, and that comments survive."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from feedferry.schemas.errors import ConfigError
from feedferry.schemas.reject import Reject
from feedferry.transforms.rules.known_rejects import add_known_rejects, entry_of, load_known_rejects

REJECT = Reject(code="torn-end", reason="id='4': no end", stage="read", source="a b.xml")
HEAD = """\
# feedferry known rejects 1
# A line has a code, and the URL of the record or SOURCE@PLACE of a record without one.
"""


@pytest.mark.parametrize(
    ("reject", "entry"),
    [
        (replace(REJECT, url="http://h/a b", offset=7), "torn-end http://h/a b"),
        (replace(REJECT, offset=7), "torn-end a b.xml@7"),
        (replace(REJECT, key="id='4'"), "torn-end a b.xml@id='4'"),
        (replace(REJECT, url='"\n'), r'torn-end "\"\n"'),
        (replace(REJECT, url=" http://h/"), 'torn-end " http://h/"'),
    ],
    ids=["url", "place", "key-of-row", "line-end", "white-space"],
)
def test_a_reject_is_found_by_its_line(tmp_path: Path, reject: Reject, entry: str) -> None:
    assert entry_of(reject) == entry

    path = tmp_path / "known.txt"
    add_known_rejects(path, [entry])
    assert load_known_rejects(str(path)) == {entry}


def test_a_list_is_sorted_and_keeps_comments_before_their_lines(tmp_path: Path) -> None:
    path = tmp_path / "known.txt"
    path.write_text(HEAD + "\n# since 2019\nb http://h/2\na http://h/1\n\n# the end\n", "utf-8")

    assert add_known_rejects(path, ["a http://h/3", "b http://h/2"]) == 1
    text = f"{HEAD}a http://h/1\na http://h/3\n# since 2019\nb http://h/2\n# the end\n"
    assert path.read_text("utf-8") == text
    assert add_known_rejects(path, ["a http://h/3"]) == 0
    assert path.read_text("utf-8") == text


def test_a_changed_list_is_read_again_and_a_missing_one_is_empty(tmp_path: Path) -> None:
    path = tmp_path / "known.txt"
    assert load_known_rejects(str(path)) == load_known_rejects(None) == frozenset()

    add_known_rejects(path, ["a http://h/1"])
    assert load_known_rejects(str(path)) == {"a http://h/1"}
    add_known_rejects(path, ["a http://h/2"])
    assert load_known_rejects(str(path)) == {"a http://h/1", "a http://h/2"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("# feedferry known rejects 2\n", ":1: version 2; expected '# feedferry known rejects 1'"),
        ("a http://h/\n", ":1: 'a http://h/'; expected '# feedferry known rejects 1'"),
        (f"{HEAD}a\nB http://h/\n", ":3: 'a'; expected a code and a URL"),
    ],
)
def test_another_file_is_no_list(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "known.txt"
    path.write_text(text, "utf-8")

    with pytest.raises(ConfigError) as caught:
        load_known_rejects(str(path))
    assert str(caught.value).splitlines()[0] == f"{path}{message}"
