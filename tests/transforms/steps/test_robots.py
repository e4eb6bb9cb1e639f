"""The rules of a robots.txt: which groups count, and which rule decides."""

import pytest

from feedferry.transforms.steps.robots import RobotRules

TEXT = """\
# a comment
User-agent: other
User-agent: FeedFerry
Crawl-delay: 5
Disallow: /private
Allow: /private/open   # but not this
Disallow: /*.pdf$
Disallow: /search?
Disallow: /f%C3%BCr
Disallow:

User-agent: *
Disallow: /

user-agent: feedferry
disallow: /late
"""


@pytest.mark.parametrize(
    ("path", "is_allowed"),
    [
        ("/", True),
        ("/private", False),
        ("/private/a", False),
        ("/private/open/a", True),
        ("/a.pdf", False),
        ("/a.pdf?page=1", True),
        ("/search", True),
        ("/search?q=a", False),
        ("/f%c3%bcr", False),
        ("/late/a", False),
    ],
)
def test_the_longest_rule_of_the_groups_of_the_agent_decides(path: str, is_allowed: bool) -> None:
    assert RobotRules(TEXT, "feedferry").allows(path) is is_allowed


@pytest.mark.parametrize(
    ("text", "is_allowed"),
    [
        ("", True),
        ("Disallow: /", True),
        ("User-agent: *\nDisallow: /", False),
        ("User-agent: *\nDisallow: /\n\nUser-agent: feedferry\nDisallow:", True),
        ("User-agent: *\nDisallow: /a\nAllow: /a", True),
        ("User-agent: *\nAllow: /a\nDisallow: /a*", False),
        ("<html><title>Log in</title>", True),
    ],
)
def test_without_a_rule_that_matches_all_is_allowed(text: str, is_allowed: bool) -> None:
    assert RobotRules(text, "feedferry").allows("/a") is is_allowed


def test_many_wildcards_take_no_time() -> None:
    rules = RobotRules("User-agent: *\nDisallow: /" + "*a" * 50 + "$", "feedferry")
    assert rules.allows("/" + "a" * 2000 + "b")
