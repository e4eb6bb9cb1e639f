"""Patterns, and names, by which files are left out."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.errors import ConfigError
from transforms.sources.tree.patterns import check_patterns, described_by, glob, judge
from transforms.sources.tree.tree import Tree


def code(key: str, size: int | None = 1, **rules: Any) -> str | None:  # the fields of a Tree
    return judge(Tree(root="/srv/docs", **rules))(key, size)


def complaint(**rules: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        check_patterns(Tree(root="/srv/docs", **rules))
    return str(caught.value)


@pytest.mark.parametrize(
    ("pattern", "key"),
    [
        ("*.pdf", "a.pdf"),
        ("*.pdf", "a/b/c.pdf"),
        ("*.pdf", ".pdf"),
        ("a?c", "abc"),
        ("[abc].txt", "b.txt"),
        ("[!abc].txt", "d.txt"),
        ("[^abc].txt", "d.txt"),
        ("[a-c].txt", "b.txt"),
        ("[]-].txt", "].txt"),
        ("[--0].txt", "..txt"),
        ("[&&|~].txt", "~.txt"),
        ("[", "["),
        ("[]", "[]"),
        (r"\*.txt", "*.txt"),
        ("a\\", "a\\"),
        ("a.b", "a.b"),
        ("*", "two\nlines"),
        ("/a.pdf", "a.pdf"),
        ("docs/*.pdf", "docs/a.pdf"),
        ("docs/**", "docs/a/b.pdf"),
        ("docs/**/x.pdf", "docs/x.pdf"),
        ("docs/**/x.pdf", "docs/a/b/x.pdf"),
        ("**/x.pdf", "x.pdf"),
        ("**/x.pdf", "a/b/x.pdf"),
        ("docs/**.pdf", "docs/a/b.pdf"),
        ("archive/", "archive/a.pdf"),
        ("archive/", "a/archive/b/c.pdf"),
        ("/archive/", "archive/a.pdf"),
        ("a/*/", "a/b/c.pdf"),
        ("re:^[0-9]{4}/", "2026/a.pdf"),
        ("re:PDF|pdf", "a/b.pdf.txt"),
        ("re:a.b", "a\nb"),
    ],
)
def test_a_pattern_stands_for_a_key(pattern: str, key: str) -> None:
    assert glob(pattern)(key)


@pytest.mark.parametrize(
    ("pattern", "key"),
    [
        ("*.pdf", "a.pdf.txt"),
        ("*.pdf", "a.PDF"),
        ("*.pdf", "x.pdf/a.txt"),
        ("a?c", "a/c"),
        ("a[/]c", "a/c"),
        ("a[!b]c", "a/c"),
        ("[!abc].txt", "a.txt"),
        ("[a-c].txt", "-.txt"),
        (r"\*.txt", "a.txt"),
        ("a.b", "axb"),
        ("/a.pdf", "b/a.pdf"),
        ("docs/*.pdf", "docs/a/b.pdf"),
        ("docs/*.pdf", "more/docs/a.pdf"),
        ("docs/**/x.pdf", "docs/ax.pdf"),
        ("docs/**", "docs"),
        ("archive/", "archive"),
        ("archive", "archive/a.pdf"),
        ("/archive/", "a/archive/b.pdf"),
        ("re:^pdf", "a/pdf"),
    ],
)
def test_a_pattern_does_not_stand_for_a_key(pattern: str, key: str) -> None:
    assert not glob(pattern)(key)


@given(st.text("ab*?[]!^-/\\.&|~{}()+$", max_size=8), st.text("ab/", max_size=8))
def test_every_text_is_a_pattern_or_is_refused(pattern: str, key: str) -> None:
    try:
        is_matched = glob(pattern)(key)
    except ConfigError:
        return
    assert is_matched in (True, False)


@given(st.text("ab*?[\\/", min_size=1, max_size=6).filter(lambda key: key.strip("/")))
def test_a_key_whose_characters_are_escaped_stands_for_itself(key: str) -> None:
    key = key.strip("/")
    escaped = "".join(char if char == "/" else "\\" + char for char in key)
    assert glob("/" + escaped)(key)


def test_all_is_taken_unless_somebody_says_otherwise() -> None:
    assert code("a/b.pdf") is None


def test_what_is_not_included_is_excluded() -> None:
    assert code("a/b.txt", include=("*.pdf",)) == "excluded"


def test_one_pattern_is_enough_to_be_included() -> None:
    assert code("a/b.txt", include=("*.pdf", "re:txt$")) is None


def test_a_folder_need_not_be_included() -> None:
    assert code("a/", include=("*.pdf",)) is None


def test_all_below_a_folder_can_be_included() -> None:
    assert code("a/b/c.txt", include=("a/",)) is None


def test_to_exclude_wins_over_to_include() -> None:
    assert code("b.pdf", include=("*.pdf",), exclude=("b.*",)) == "excluded"


@pytest.mark.parametrize("pattern", ["old", "old/", "/a/old", "a/*", "a/**", "**/old/"])
def test_a_folder_can_be_excluded(pattern: str) -> None:
    assert code("a/old/", exclude=(pattern,)) == "excluded"


@pytest.mark.parametrize("pattern", ["old", "old/", "/a/old", "a/*", "a/**", "**/old/"])
def test_all_below_an_excluded_folder_is_excluded(pattern: str) -> None:
    assert code("a/old/b/c.pdf", exclude=(pattern,)) == "excluded"


@pytest.mark.parametrize("pattern", ["*.pdf", "old.txt", "a/old", "old/", "re:."])
def test_a_folder_is_not_excluded_by_what_is_said_of_others(pattern: str) -> None:
    assert code("older/a/", exclude=(pattern,)) is None


def test_a_file_is_not_excluded_by_a_pattern_for_folders() -> None:
    assert code("a/old", exclude=("old/",)) is None


def test_a_regular_expression_excludes_files() -> None:
    assert code("a/b-draft.pdf", exclude=("re:draft",)) == "excluded"


@pytest.mark.parametrize("key", [".hidden", "a/.hidden", "a/.git/config", ".git/"])
def test_what_begins_with_a_dot_is_hidden(key: str) -> None:
    assert code(key) == "hidden"


@pytest.mark.parametrize("key", [".hidden", "a/.git/config", ".git/"])
def test_what_is_hidden_can_be_taken(key: str) -> None:
    assert code(key, takes_hidden=True) is None


@pytest.mark.parametrize(
    "name",
    [
        "~$plan.docx",
        ".~lock.plan.odt#",
        "notes.swp",
        ".notes.txt.swo",
        "notes.txt~",
        ".#notes.txt",
        "x.TMP",
        "x.pdf.crdownload",
        "x.pdf.part",
        "Thumbs.db",
        "desktop.ini",
        ".DS_Store",
    ],
)
def test_what_programs_leave_behind_is_temporary(name: str) -> None:
    assert code(f"a/{name}", 0, takes_hidden=False) == "temporary"


@pytest.mark.parametrize("key", ["part", "a.parts", "~.txt", "lock.odt#", "x.tmp/", "a~/b"])
def test_what_only_looks_like_it_is_not_temporary(key: str) -> None:
    assert code(key) is None


def test_a_file_of_no_byte_is_empty() -> None:
    assert code("a", 0) == "empty"


def test_a_file_of_unknown_size_is_not_empty() -> None:
    assert code("a", None) is None


def test_a_folder_is_not_empty() -> None:
    assert code("a/", 0) is None


def test_what_is_excluded_need_not_be_empty_as_well() -> None:
    assert code("a", 0, exclude=("a",)) == "excluded"


@pytest.mark.parametrize(
    ("key", "described"),
    [
        ("a/x.pdf.meta.json", "a/x.pdf"),
        ("x.pdf.meta.yaml", "x.pdf"),
        ("x.pdf.meta.yml", "x.pdf"),
        ("x.pdf.metadata.xml", "x.pdf"),
        ("x.pdf.meta.json.meta.yml", "x.pdf.meta.json"),
        ("x.pdf.meta.xml", None),
        ("a/.meta.json", None),
        (".meta.json", None),
        ("x.pdf", None),
    ],
)
def test_the_name_of_a_sidecar_says_what_it_describes(key: str, described: str | None) -> None:
    assert described_by(key) == described


@pytest.mark.parametrize("pattern", ["", "/", "//"])
def test_a_glob_of_nothing_is_refused(pattern: str) -> None:
    assert complaint(include=(pattern,)) == (
        f"--include: {pattern!r}; expected a glob such as '*.pdf' or 'archive/'"
    )


def test_a_range_that_runs_backwards_is_refused() -> None:
    assert complaint(exclude=("[z-a]",)) == (
        "--exclude: '[z-a]' (bad character range z-a); expected a glob such as '*.pdf' or"
        " 'archive/'"
    )


@pytest.mark.parametrize("flag", ["include", "exclude"])
def test_a_regular_expression_that_is_none_is_refused(flag: str) -> None:
    assert complaint(**{flag: ("*.pdf", "re:(draft")}) == (
        f"--{flag}: 're:(draft' (missing ), unterminated subpattern); expected a regular"
        " expression after re:"
    )


def test_a_regular_expression_of_nothing_is_refused() -> None:
    assert complaint(exclude=("re:",)) == (
        "--exclude: 're:'; expected a regular expression after re:"
    )


def test_patterns_that_can_be_used_are_returned_as_they_are() -> None:
    tree = Tree(root="/srv/docs", include=("*.pdf",), exclude=("re:draft",))
    assert check_patterns(tree) == tree


def test_an_archive_that_is_opened_need_not_be_included_itself() -> None:
    rules = Tree(root="/srv", include=("*.pdf",), opens_archives=True)
    assert [judge(rules)(key, 9) for key in ("a.zip", "a.zip/x.pdf", "a.zip/x.txt")] == [
        None,
        None,
        "excluded",
    ]


def test_an_archive_that_is_opened_can_be_excluded() -> None:
    rules = Tree(root="/srv", exclude=("*.zip",), opens_archives=True)
    assert judge(rules)("a.zip", 9) == "excluded"
