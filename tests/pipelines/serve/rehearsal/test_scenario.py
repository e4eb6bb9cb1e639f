"""The behaviour that a scenario chooses for each request, and the errors of its file."""

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from msgspec.structs import asdict

from feedferry.pipelines.serve.rehearsal.scenario import Behaviour, Scenario, ScenarioRule, load
from feedferry.schemas.errors import ConfigError
from support.pages import read_page

PAGE = read_page("docs/scenarios.md")
ROWS = "\n".join(line for line in PAGE.splitlines() if line.startswith("|"))
EXAMPLES = {
    "internal-error": "- {endpoint: xmlfeed, requests: 1-3, status: 500}\n",
    "disk-full": "- {until: 30s, disk_full: true}\n",
    "refused-url": "- refuse_urls: [http://intranet.example.com/board/minutes.pdf]\n",
    "slow": "- {endpoint: [xmlfeed, xmlgroups, recvdata], delay: 5s}\n",
    "backlog-over-time": (
        "- {until: 1m, backlog: 0}\n"
        "- {after: 1m, until: 3m, backlog: 6000}\n"
        "- {after: 3m, until: 5m, backlog: 900}\n"
        "- {after: 5m, backlog: 0}\n"
    ),
    **dict(re.findall(r'```yaml title="(.*?)\.yaml"\n(.*?)```', PAGE, re.DOTALL)),
}
URL = "http://intranet.example.com/board/minutes.pdf"

FEED, GROUPS, DATA, BACKLOG = "xmlfeed", "xmlgroups", "recvdata", "getbacklogcount"
IN_ORDER: dict[str, object] = {}
BROKEN = {"status": 500}
FULL = {"disk_full": True}
TEN = [FEED] * 10


def load_text(folder: Path, text: str) -> Scenario:
    path = folder / "scenario.yaml"
    path.write_text(text, "utf-8")
    return load(path)


def behaviours(scenario: Scenario, *endpoints: str, now: float = 0) -> list[dict[str, object]]:
    """The values that a scenario states for each request."""
    results = [asdict(scenario.next(endpoint, now)) for endpoint in endpoints]
    names = Behaviour.__struct_fields__
    return [{name: item[name] for name in names if item[name] is not None} for item in results]


def backlogs(scenario: Scenario, *moments: float) -> list[object]:
    return [scenario.next(BACKLOG, now).backlog for now in moments]


def test_without_rules_an_appliance_is_in_good_order() -> None:
    assert behaviours(Scenario(), FEED, GROUPS, DATA, BACKLOG) == [IN_ORDER] * 4


@pytest.mark.parametrize("key", sorted(ScenarioRule.__struct_fields__))
def test_a_key_is_in_a_row_of_the_page(key: str) -> None:
    assert f"| `{key}` |" in ROWS


LATE = {"text": "-1"}
NO_SPACE = {"text": "error: group db at capacity."}
UNTRUSTED = {"text": "Error - Unauthorized Request"}
LOGIN = {"text": "<html>Please log in</html>"}
SLOW, REFUSING = {"delay": 5.0}, {"refuse_urls": (URL,)}
TENTH = {"delay": 10.0, "reset": "before-reply"}
AT_ONCE, IN_BODY, BEFORE = ({"reset": name} for name in ("at-once", "in-body", "before-reply"))


@pytest.mark.parametrize(
    ("example", "endpoints", "expected"),
    [
        ("disk-full", (FEED, GROUPS, BACKLOG, DATA), [FULL, FULL, IN_ORDER, IN_ORDER]),
        ("no-backlog", (BACKLOG, FEED), [{"status": 404}, IN_ORDER]),
        ("backlog-unknown", [BACKLOG] * 7, [*[LATE] * 2, *[LOGIN] * 3, {"delay": 120.0}, IN_ORDER]),
        (
            *("internal-error", (FEED, FEED, GROUPS, FEED, FEED)),
            [BROKEN, BROKEN, IN_ORDER, BROKEN, IN_ORDER],
        ),
        ("slow", (FEED, DATA, BACKLOG), [SLOW, SLOW, IN_ORDER]),
        (
            *("reset", TEN),
            [
                *(IN_ORDER, IN_ORDER, BEFORE, IN_ORDER, IN_BODY),
                *(BEFORE, AT_ONCE, IN_ORDER, BEFORE, IN_BODY),
            ],
        ),
        ("refused-url", (DATA, FEED, GROUPS), [REFUSING, REFUSING, IN_ORDER]),
        ("refused", (GROUPS, FEED, DATA), [NO_SPACE, UNTRUSTED, IN_ORDER]),
        ("bad-day", TEN, [IN_ORDER, IN_ORDER, *[FULL] * 3, *[IN_ORDER] * 4, TENTH]),
    ],
)
def test_an_example_behaves_as_it_says(
    tmp_path: Path, example: str, endpoints: list[str], expected: list[dict[str, object]]
) -> None:
    assert behaviours(load_text(tmp_path, EXAMPLES[example]), *endpoints) == expected


@pytest.mark.parametrize(
    ("example", "moments", "expected"),
    [
        ("backlog", range(10), [0, 2500, 4001, 6000, 6000, 3000, 1000, 999, 999, 999]),
        ("backlog-over-time", (0, 59, 60, 179, 180, 299, 300), [0, 0, 6000, 6000, 900, 900, 0]),
        ("bad-day", (1799, 1800, 10_799, 10_800), [None, 6000, 6000, None]),
    ],
)
def test_a_backlog_follows_the_requests_or_the_time(
    tmp_path: Path, example: str, moments: list[float], expected: list[object]
) -> None:
    assert backlogs(load_text(tmp_path, EXAMPLES[example]), *moments) == expected


@pytest.mark.parametrize(
    ("when", "expected"),
    [
        ("requests: 2", [2]),
        ("requests: 2-4", [2, 3, 4]),
        ("requests: 9-", [9, 10]),
        ("requests: 10-99", [10]),
        ("every: 4", [4, 8]),
        ("requests: 4-8, every: 2", [5, 7]),
    ],
)
def test_requests_are_numbered_from_one(tmp_path: Path, when: str, expected: list[int]) -> None:
    replies = behaviours(load_text(tmp_path, f"- {{{when}, status: 500}}"), *TEN)
    assert [number for number, reply in enumerate(replies, 1) if reply == BROKEN] == expected


@pytest.mark.parametrize(
    ("when", "expected"),
    [
        ("after: 10s", [10, 11, 60, 61]),
        ("after: 0s", [0, 9.9, 10, 11, 60, 61]),
        ("until: 10s", [0, 9.9]),
        ("after: 10s, until: 1m", [10, 11]),
        ("after: 10s, every: 2", [11, 61]),
        ("after: 10s, requests: 1-3", [10]),
    ],
)
def test_moments_are_counted_from_the_start(
    tmp_path: Path, when: str, expected: list[float]
) -> None:
    scenario = load_text(tmp_path, f"- {{{when}, status: 500}}")
    moments = (0, 9.9, 10, 11, 60, 61)
    assert [now for now in moments if scenario.next(FEED, now).status] == expected


def test_only_requests_at_the_doors_of_a_rule_are_numbered(tmp_path: Path) -> None:
    scenario = load_text(tmp_path, "- {endpoint: xmlgroups, requests: 2, status: 500}")
    assert behaviours(scenario, FEED, GROUPS, DATA, GROUPS) == [*[IN_ORDER] * 3, BROKEN]
    scenario = load_text(tmp_path, "- {endpoint: [xmlgroups, recvdata], requests: 2, status: 500}")
    assert behaviours(scenario, FEED, GROUPS, DATA) == [IN_ORDER, IN_ORDER, BROKEN]


def test_the_first_rule_wins_and_all_rules_count(tmp_path: Path) -> None:
    scenario = load_text(tmp_path, "- {requests: 2, text: a}\n- {requests: 1-3, text: b}")
    assert [scenario.next(FEED, 0).text for _ in range(4)] == ["b", "a", "b", None]


def test_rules_about_the_backlog_are_independent_of_the_others(tmp_path: Path) -> None:
    text = "- {delay: 1s}\n- {after: 5s, until: 9s, backlog: 7}\n- {backlog: [8, 9]}"
    scenario = load_text(tmp_path, text)
    assert behaviours(scenario, FEED, BACKLOG) == [{"delay": 1.0}, {"delay": 1.0, "backlog": 8}]
    assert backlogs(scenario, 4, 5, 9) == [9, 7, 9]


@pytest.mark.slow
def test_threads_share_the_numbers(tmp_path: Path) -> None:
    scenario = load_text(tmp_path, "- {every: 4, status: 500}")
    with ThreadPoolExecutor(8) as pool:
        replies = list(pool.map(lambda _: scenario.next(FEED, 0).status, range(4000)))
    assert replies.count(500) == 1000


def error_of(folder: Path, text: str) -> str:
    """The message about a file, without its name."""
    with pytest.raises(ConfigError) as caught:
        load_text(folder, text)
    return str(caught.value).replace(f"{folder / 'scenario.yaml'}:", "")


def test_a_file_may_be_json(tmp_path: Path) -> None:
    assert backlogs(load_text(tmp_path, '[\n  {"backlog": [5]}\n]\n'), 0) == [5]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "1:1: an empty document; expected a list"),
        ("status: 500", "1:1: a mapping; expected a list"),
        (
            "# a comment\n- endpoint: xmlfeed\n  status: 500\n\n- status: 99\n",
            "5:11: [1].status: 99; expected 400 to 599",
        ),
    ],
)
def test_a_file_with_an_error_is_refused(tmp_path: Path, text: str, expected: str) -> None:
    assert error_of(tmp_path, text) == expected


BEHAVIOURS = "status, text, disk_full, {}reset, refuse_urls, throttle, backlog"
ENDPOINTS = "xmlfeed or xmlgroups or recvdata or bulk or getbacklogcount or cluster or a list"


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (
            "{statsu: 500}",
            f"'statsu'; expected one of {BEHAVIOURS.format('delay, ')}, endpoint, requests, after,"
            " until, every; did you mean 'status'?",
        ),
        ("{endpoint: xmlfeed}", f"no behaviour; expected one of {BEHAVIOURS.format('')}, delay"),
        ("{endpoint: groups, status: 500}", f"endpoint: 'groups'; expected {ENDPOINTS}"),
        (
            "{endpoint: recvdata, disk_full: true}",
            "endpoint: 'recvdata'; expected one of xmlfeed, xmlgroups, bulk",
        ),
        ("{endpoint: [], status: 500}", "an empty list; expected one value or more"),
        (
            "{requests: 5-3, status: 500}",
            "requests: '5-3'; expected numbers from 1, such as 3, 3-5 or 3-",
        ),
        (
            "{after: 10x, status: 500}",
            "after: '10x'; expected a duration such as 200ms, 90s, 2h, 1h30m or 1d",
        ),
        (
            "{after: 1m, until: 30s, status: 500}",
            "until: not later than `after`; expected a later moment",
        ),
        ("{every: 0, status: 500}", "every: 0; expected a number, 1 or more"),
        ("{reset: in body}", "reset: 'in body'; expected at-once or in-body or before-reply"),
        (
            "{status: 500, reset: at-once}",
            "status, reset; expected one of them: a request has one reply",
        ),
        ("{backlog: 5, delay: 1s}", "backlog, delay; expected a rule for each"),
    ],
)
def test_a_rule_with_an_error_is_refused(tmp_path: Path, rule: str, expected: str) -> None:
    place, _, message = error_of(tmp_path, f"- {rule}").partition(": [0]")
    assert (place[:2], message.lstrip(".: ")) == ("1:", expected)
