"""Patterns, and names, by which files are left out."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feedferry.schemas.errors import ConfigError
from feedferry.transforms.sources.tree.rules.patterns import described_by, glob, judge, takes_all
from feedferry.transforms.sources.tree.rules.tree import Tree

NAMES = (
    *("Thumbs.db", "thumbs.db2", "x.TMP", "x.tmp.a", ".~lock.x#", "~$x", ".DS_Store", "a.part"),
    *("a.\u017fwp", "desktop.\u0131n\u0131"),  # letters that are i and s in another case
)


def code(key: str, **rules: Any) -> str | None:  # the fields of a Tree
    return judge(Tree(root="/srv/docs", **rules))(key)


@given(
    st.sampled_from(("", "a/", ".a/", "a/.b/")),
    st.lists(st.text("a.~#$\n", min_size=1, max_size=4) | st.sampled_from(NAMES), max_size=4),
    st.booleans(),
)
def test_no_rule_leaves_out_a_file_if_all_are_taken(
    folder: str, names: list[str], hidden: bool
) -> None:
    codes = [code(folder + name, hidden=hidden) for name in names]
    rules = Tree(root="/srv/docs", hidden=hidden)
    is_hidden_folder = not hidden and folder.startswith((".", "a/."))
    assert takes_all(rules, folder, names) == (not any(codes) and not is_hidden_folder)


def test_with_patterns_each_file_is_judged() -> None:
    assert not takes_all(Tree(root="/srv/docs", include=("*.a",)), "", ["b.a"])
    assert not takes_all(Tree(root="/srv/docs", exclude=("*.b",)), "", ["b.a"])


def complaint(**rules: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        judge(Tree(root="/srv/docs", **rules))
    return str(caught.value)


@pytest.mark.parametrize(
    ("pattern", "matching", "other"),
    [
        ("*.pdf", ["a.pdf", "a/b/c.pdf", ".pdf"], ["a.pdf.txt", "a.PDF", "x.pdf/a.txt"]),
        ("a?c", ["abc"], ["a/c"]),
        ("[abc].txt", ["b.txt"], ["d.txt"]),
        ("[!abc].txt", ["d.txt"], ["a.txt"]),
        ("[^abc].txt", ["d.txt"], ["a.txt"]),
        ("[a-c].txt", ["b.txt"], ["-.txt"]),
        ("[]-].txt", ["].txt"], []),
        ("[--0].txt", ["..txt"], []),
        ("[&&|~].txt", ["~.txt"], []),
        ("a[/]c", [], ["a/c"]),
        ("a[!b]c", ["adc"], ["a/c"]),
        ("[", ["["], []),
        ("[]", ["[]"], []),
        (r"\*.txt", ["*.txt"], ["a.txt"]),
        ("a\\", ["a\\"], []),
        ("a.b", ["a.b"], ["axb"]),
        ("*", ["two\nlines"], []),
        ("/a.pdf", ["a.pdf"], ["b/a.pdf"]),
        ("docs/*.pdf", ["docs/a.pdf"], ["docs/a/b.pdf", "more/docs/a.pdf"]),
        ("docs/**", ["docs/a/b.pdf"], ["docs"]),
        ("docs/**/x.pdf", ["docs/x.pdf", "docs/a/b/x.pdf"], ["docs/ax.pdf"]),
        ("**/x.pdf", ["x.pdf", "a/b/x.pdf"], []),
        ("docs/**.pdf", ["docs/a/b.pdf"], []),
        ("archive/", ["archive/a.pdf", "a/archive/b/c.pdf"], ["archive"]),
        ("archive", ["archive"], ["archive/a.pdf"]),
        ("/archive/", ["archive/a.pdf"], ["a/archive/b.pdf"]),
        ("a/*/", ["a/b/c.pdf"], []),
        ("re:^[0-9]{4}/", ["2026/a.pdf"], []),
        ("re:PDF|pdf", ["a/b.pdf.txt"], []),
        ("re:^pdf", ["pdf"], ["a/pdf"]),
        ("re:a.b", ["a\nb"], []),
    ],
)
def test_a_pattern_matches_keys(pattern: str, matching: list[str], other: list[str]) -> None:
    is_match = glob(pattern)
    assert [key for key in (*matching, *other) if is_match(key)] == matching


@given(st.text("ab*?[]!^-/\\.&|~{}()+$", max_size=8), st.text("ab/", max_size=8))
def test_every_text_is_a_pattern_or_is_refused(pattern: str, key: str) -> None:
    try:
        is_matched = glob(pattern)(key)
    except ConfigError:
        return
    assert is_matched in (True, False)


@given(st.text("ab*?[\\/", min_size=1, max_size=6).filter(lambda key: key.strip("/")))
def test_an_escaped_key_matches_itself(key: str) -> None:
    key = key.strip("/")
    escaped = "".join(char if char == "/" else "\\" + char for char in key)
    assert glob("/" + escaped)(key)


@pytest.mark.parametrize(
    ("key", "rules", "expected"),
    [
        ("a/b.pdf", {}, None),
        ("a/b.txt", {"include": ("*.pdf",)}, "excluded"),
        ("a/b.txt", {"include": ("*.pdf", "re:txt$")}, None),
        ("a/", {"include": ("*.pdf",)}, None),
        ("a/b/c.txt", {"include": ("a/",)}, None),
        ("b.pdf", {"include": ("*.pdf",), "exclude": ("b.*",)}, "excluded"),
        ("a/old", {"exclude": ("old/",)}, None),
        ("a/b-draft.pdf", {"exclude": ("re:draft",)}, "excluded"),
        (".hidden", {}, "hidden"),
        ("a/.git/config", {}, "hidden"),
        (".git/", {}, "hidden"),
        (".git/", {"hidden": True}, None),
        ("a/.git/config", {"hidden": True}, None),
        ("a.zip", {"include": ("*.pdf",), "open_archives": True}, None),
        ("a.zip/x.txt", {"include": ("*.pdf",), "open_archives": True}, "excluded"),
        ("a.zip", {"exclude": ("*.zip",), "open_archives": True}, "excluded"),
    ],
)
def test_patterns_and_names_leave_out_files(
    key: str, rules: dict[str, Any], expected: str | None
) -> None:
    assert code(key, **rules) == expected


@pytest.mark.parametrize("pattern", ["old", "old/", "/a/old", "a/*", "a/**", "**/old/"])
def test_an_excluded_folder_excludes_all_files_below_it(pattern: str) -> None:
    assert code("a/old/", exclude=(pattern,)) == "excluded"
    assert code("a/old/b/c.pdf", exclude=(pattern,)) == "excluded"


@pytest.mark.parametrize("pattern", ["*.pdf", "old.txt", "a/old", "old/", "re:."])
def test_a_folder_is_not_excluded_by_patterns_for_other_names(pattern: str) -> None:
    assert code("older/a/", exclude=(pattern,)) is None


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
def test_names_of_temporary_files_are_temporary(name: str) -> None:
    assert code(f"a/{name}", hidden=False) == "temporary"


@pytest.mark.parametrize("key", ["part", "a.parts", "~.txt", "lock.odt#", "x.tmp/", "a~/b"])
def test_similar_names_are_not_temporary(key: str) -> None:
    assert code(key) is None


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


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ({"include": ("/",)}, "--include: '/'; expected a glob such as '*.pdf' or 'archive/'"),
        ({"include": ("",)}, "--include: ''; expected a glob such as '*.pdf' or 'archive/'"),
        (
            {"exclude": ("[z-a]",)},
            "--exclude: '[z-a]' (bad character range z-a); expected a glob such as '*.pdf' or"
            " 'archive/'",
        ),
        (
            {"include": ("*.pdf", "re:(draft")},
            "--include: 're:(draft' (missing ), unterminated subpattern); expected a regular"
            " expression after re:",
        ),
        ({"exclude": ("re:",)}, "--exclude: 're:'; expected a regular expression after re:"),
    ],
)
def test_a_bad_pattern_is_refused(rules: dict[str, Any], expected: str) -> None:
    assert complaint(**rules) == expected
