"""The behaviour that a scenario chooses for each request, and the errors of its file."""

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pipelines.serve.rehearsal.scenario import (
    IN_ORDER,
    BacklogCurve,
    Behaviour,
    Scenario,
    ScenarioRule,
    load,
)
from schemas.delivery import Door
from schemas.errors import ConfigError
from support.pages import read_page

PAGE = read_page("docs/scenarios.md")
ROWS = "\n".join(line for line in PAGE.splitlines() if line.startswith("|"))
EXAMPLES = dict(re.findall(r'```yaml title="(.*?)"\n(.*?)```', PAGE, re.DOTALL))
CURVES = re.findall(r"^\| `(.*)` \|", PAGE.partition("\n## Backlog\n")[2], re.MULTILINE)[1:]

DISK_FULL = Behaviour(is_disk_full=True)
BROKEN = Behaviour(status=500)
FEED, GROUPS, DATA, BACKLOG = Door.FEED, Door.GROUPS, Door.DATA, None


def load_text(folder: Path, text: str) -> Scenario:
    path = folder / "scenario.yaml"
    path.write_text(text, "utf-8")
    return load(path)


def error_of(folder: Path, text: str) -> str:
    """The message about a file, without its name."""
    with pytest.raises(ConfigError) as caught:
        load_text(folder, text)
    name = str(folder / "scenario.yaml")
    assert str(caught.value).startswith(name)
    return str(caught.value).removeprefix(name)


def behaviours(scenario: Scenario, *doors: Door | None, now: float = 0) -> list[Behaviour]:
    return [scenario.next(door, now) for door in doors]


def backlogs(scenario: Scenario, *moments: float) -> list[int | None]:
    return [scenario.next(BACKLOG, now).backlog for now in moments]


def test_without_rules_an_appliance_is_in_good_order() -> None:
    assert behaviours(Scenario(), FEED, GROUPS, DATA, BACKLOG) == [IN_ORDER] * 4


@pytest.mark.parametrize("key", sorted(ScenarioRule.__struct_fields__))
def test_a_key_is_in_a_row_of_the_page(key: str) -> None:
    assert f"| `{key}` |" in ROWS


@pytest.mark.parametrize("curve", CURVES)
def test_a_backlog_of_the_page_can_be_used(tmp_path: Path, curve: str) -> None:
    assert backlogs(load_text(tmp_path, f"- backlog: {curve}"), 0)[0] in {0, 100, 4500}


class TestExamplesOfThePage:
    @pytest.fixture
    def example(self, tmp_path: Path, request: pytest.FixtureRequest) -> Scenario:
        return load_text(tmp_path, EXAMPLES[f"{request.param}.yaml"])

    @pytest.mark.parametrize("example", ["disk-full"], indirect=True)
    def test_the_disk_is_full_for_a_while(self, example: Scenario) -> None:
        assert [example.next(FEED, now) for now in (0, 29.9, 30)] == [
            *(DISK_FULL, DISK_FULL, IN_ORDER)
        ]
        assert behaviours(example, BACKLOG, DATA) == [IN_ORDER, IN_ORDER]

    @pytest.mark.parametrize("example", ["backlog"], indirect=True)
    def test_the_backlog_follows_the_requests(self, example: Scenario) -> None:
        assert backlogs(example, *range(10)) == [
            *(0, 2500, 4001, 6000, 6000, 3000, 1000, 999, 999, 999)
        ]

    @pytest.mark.parametrize("example", ["backlog-over-time"], indirect=True)
    def test_the_backlog_follows_the_time(self, example: Scenario) -> None:
        assert backlogs(example, 0, 0.01, 30, 60, 100, 180, 240, 300, 9999) == [
            *(0, 1, 3000, 6000, 6000, 6000, 3000, 0, 0)
        ]

    @pytest.mark.parametrize("example", ["no-backlog"], indirect=True)
    def test_an_old_appliance_has_no_backlog(self, example: Scenario) -> None:
        assert behaviours(example, BACKLOG, FEED) == [Behaviour(status=404), IN_ORDER]

    @pytest.mark.parametrize("example", ["backlog-unknown"], indirect=True)
    def test_the_backlog_is_unknown_for_a_while(self, example: Scenario) -> None:
        negative, page = Behaviour(text="-1"), Behaviour(text="<html>Please log in</html>")
        assert behaviours(example, *[BACKLOG] * 7) == [
            *(negative, negative, page, page, page, Behaviour(delay_seconds=120), IN_ORDER)
        ]

    @pytest.mark.parametrize("example", ["internal-error"], indirect=True)
    def test_the_first_three_feeds_meet_an_error(self, example: Scenario) -> None:
        assert behaviours(example, FEED, FEED, GROUPS, FEED, FEED) == [
            *(BROKEN, BROKEN, IN_ORDER, BROKEN, IN_ORDER)
        ]

    @pytest.mark.parametrize("example", ["slow"], indirect=True)
    def test_an_appliance_is_slow(self, example: Scenario) -> None:
        slow = Behaviour(delay_seconds=5)
        assert behaviours(example, FEED, DATA, BACKLOG) == [slow, slow, IN_ORDER]

    @pytest.mark.parametrize("example", ["reset"], indirect=True)
    def test_connections_are_reset(self, example: Scenario) -> None:
        resets = [one.reset for one in behaviours(example, *[FEED] * 10)]
        expected = {3: "before-reply", 6: "before-reply", 9: "before-reply"}
        expected |= {5: "in-body", 10: "in-body", 7: "at-once"}
        assert {number: reset for number, reset in enumerate(resets, 1) if reset} == expected

    @pytest.mark.parametrize("example", ["refused-url"], indirect=True)
    def test_a_url_is_refused(self, example: Scenario) -> None:
        urls = frozenset({"http://intranet.example.com/board/minutes.pdf"})
        refusing = Behaviour(refuse_urls=urls)
        assert behaviours(example, DATA, FEED, GROUPS) == [refusing, refusing, IN_ORDER]

    @pytest.mark.parametrize("example", ["refused"], indirect=True)
    def test_the_appliance_replies_with_texts(self, example: Scenario) -> None:
        assert behaviours(example, GROUPS, FEED, DATA) == [
            Behaviour(text="error: group db at capacity."),
            Behaviour(text="Error - Unauthorized Request"),
            IN_ORDER,
        ]

    @pytest.mark.parametrize("example", ["bad-day"], indirect=True)
    def test_a_bad_day_has_several_rules(self, example: Scenario) -> None:
        assert behaviours(example, *[FEED] * 10) == [
            *(IN_ORDER, IN_ORDER, DISK_FULL, DISK_FULL, DISK_FULL),
            *(IN_ORDER, IN_ORDER, IN_ORDER, IN_ORDER),
            Behaviour(delay_seconds=10, reset="before-reply"),
        ]
        away = Behaviour(status=503, text="Service Unavailable")
        assert behaviours(example, GROUPS, now=600) == [away]
        assert example.next(BACKLOG, 1800) == Behaviour(backlog=6000)


class TestConditions:
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
    def test_requests_are_numbered_from_one(
        self, tmp_path: Path, when: str, expected: list[int]
    ) -> None:
        scenario = load_text(tmp_path, f"- {{{when}, status: 500}}")
        replies = behaviours(scenario, *[FEED] * 10)
        assert [number for number, one in enumerate(replies, 1) if one == BROKEN] == expected

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
        self, tmp_path: Path, when: str, expected: list[float]
    ) -> None:
        scenario = load_text(tmp_path, f"- {{{when}, status: 500}}")
        moments = (0, 9.9, 10, 11, 60, 61)
        assert [now for now in moments if scenario.next(FEED, now) == BROKEN] == expected

    def test_only_requests_at_the_doors_of_a_rule_are_numbered(self, tmp_path: Path) -> None:
        scenario = load_text(tmp_path, "- {door: xmlgroups, requests: 2, status: 500}")
        assert behaviours(scenario, FEED, GROUPS, DATA, GROUPS) == [*[IN_ORDER] * 3, BROKEN]
        scenario = load_text(tmp_path, "- {door: [xmlgroups, recvdata], requests: 2, status: 500}")
        assert behaviours(scenario, FEED, GROUPS, DATA) == [IN_ORDER, IN_ORDER, BROKEN]

    def test_a_rule_without_a_door_applies_at_all(self, tmp_path: Path) -> None:
        scenario = load_text(tmp_path, "- {status: 500}")
        assert behaviours(scenario, FEED, GROUPS, DATA, BACKLOG) == [BROKEN] * 4

    def test_the_first_rule_wins_and_all_rules_count(self, tmp_path: Path) -> None:
        scenario = load_text(tmp_path, "- {requests: 2, text: a}\n- {requests: 1-3, text: b}")
        assert [one.text for one in behaviours(scenario, *[FEED] * 4)] == ["b", "a", "b", None]

    @pytest.mark.slow
    def test_threads_share_the_numbers(self, tmp_path: Path) -> None:
        scenario = load_text(tmp_path, "- {every: 4, status: 500}")
        with ThreadPoolExecutor(8) as pool:
            replies = list(pool.map(lambda _: scenario.next(FEED, 0), range(4000)))
        assert replies.count(BROKEN) == 1000


class TestBacklog:
    def test_rules_about_the_backlog_are_independent_of_the_others(self, tmp_path: Path) -> None:
        scenario = load_text(tmp_path, "- {delay: 1s}\n- {backlog: 7}\n- {backlog: 8}")
        assert behaviours(scenario, FEED, BACKLOG) == [
            Behaviour(delay_seconds=1),
            Behaviour(delay_seconds=1, backlog=7),
        ]

    def test_the_first_rule_that_applies_counts(self, tmp_path: Path) -> None:
        scenario = load_text(tmp_path, "- {after: 5s, until: 9s, backlog: 7}\n- {backlog: 8}")
        assert backlogs(scenario, 4, 5, 9) == [8, 7, 8]
        scenario = load_text(tmp_path, "- {requests: 2, backlog: 7}")
        assert backlogs(scenario, 0, 0, 0) == [None, 7, None]

    def test_a_ramp_is_a_straight_line(self, tmp_path: Path) -> None:
        scenario = load_text(tmp_path, "- backlog: {ramp: {10s: 100, 20s: 200, 40s: 0}}")
        assert backlogs(scenario, 0, 10, 15, 20, 30, 39, 40, 41) == [
            *(100, 100, 150, 200, 100, 10, 0, 0)
        ]
        assert [BacklogCurve(ramp=((5, 3),)).value(1, now) for now in (0, 5, 6)] == [3, 3, 3]

    def test_a_list_has_a_count_for_each_request_for_the_backlog(self, tmp_path: Path) -> None:
        scenario = load_text(tmp_path, "- backlog: [1, 2]")
        replies = behaviours(scenario, BACKLOG, FEED, BACKLOG, BACKLOG)
        assert [one.backlog for one in replies] == [1, None, 2, 2]


class TestErrors:
    def test_a_file_may_share_keys_or_be_json(self, tmp_path: Path) -> None:
        text = "- &first {door: xmlfeed, requests: 1, text: a}\n- {<<: *first, requests: 2}\n"
        replies = behaviours(load_text(tmp_path, text), FEED, FEED, FEED)
        assert [one.text for one in replies] == ["a", "a", None]
        scenario = load_text(tmp_path, '[\n  {"backlog": {"ramp": {"0s": 5}}}\n]\n')
        assert backlogs(scenario, 0) == [5]

    def test_a_missing_file_is_an_error(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError) as caught:
            load(tmp_path / "none.yaml")
        assert str(caught.value).startswith(
            f"{tmp_path / 'none.yaml'}: No such file or directory; expected"
        )

    @pytest.mark.parametrize(
        ("text", "found"), [("", "None"), ("[]", "[]"), ("status: 500", "{'status': 500}")]
    )
    def test_a_file_without_rules_is_an_error(self, tmp_path: Path, text: str, found: str) -> None:
        expected = f": {found}; expected a list of rules, with `-` before each"
        assert error_of(tmp_path, text) == expected

    def test_the_line_is_that_of_the_rule(self, tmp_path: Path) -> None:
        text = "# a comment\n- door: xmlfeed\n  status: 500\n\n- door: xmlfeed\n  status: 99\n"
        assert error_of(tmp_path, text) == ":5: Expected `int` >= 400 - at `$.status`"

    @pytest.mark.parametrize(
        ("rule", "expected"),
        [
            (
                "{statsu: 500}",
                "'statsu'; expected one of door, requests, after, until, every, status, text, "
                "disk_full, reset, refuse_urls, delay, backlog; did you mean 'status'?",
            ),
            ("disk_full", "Expected `object`, got `str`"),
            (
                "{door: xmlfeed}",
                "no behaviour; expected one of status, text, disk_full, reset, refuse_urls, "
                "backlog, delay",
            ),
            (
                "{door: [xmlfeed, groups], status: 500}",
                "door: 'groups'; expected one of xmlfeed, xmlgroups, recvdata, getbacklogcount; "
                "did you mean 'xmlgroups'?",
            ),
            (
                "{door: recvdata, disk_full: true}",
                "door: 'recvdata'; expected one of xmlfeed, xmlgroups",
            ),
            (
                "{requests: 5-3, status: 500}",
                "requests: '5-3'; expected numbers from 1, the lower number first, such as 3, 3-5 "
                "or 3-",
            ),
            (
                "{after: 10x, status: 500}",
                "after: '10x'; expected a duration such as 200ms, 90s or 2h",
            ),
            (
                "{after: 1m, until: 30s, status: 500}",
                "until: '30s'; expected a moment later than 1m",
            ),
            ("{every: 0, status: 500}", "Expected `int` >= 1 - at `$.every`"),
            ("{reset: in body}", "Invalid enum value 'in body' - at `$.reset`"),
            (
                "{status: 500, reset: at-once}",
                "status, reset; expected one of them: a request has one reply",
            ),
            ("{backlog: 5, delay: 1s}", "backlog, delay; expected a rule for each"),
            (
                "{backlog: {ramp: {60s: 0, 1m: 5}}}",
                "backlog.ramp: expected each moment once, such as {0s: 0, 30s: 6000}",
            ),
        ],
    )
    def test_a_rule_with_an_error_is_refused(
        self, tmp_path: Path, rule: str, expected: str
    ) -> None:
        assert error_of(tmp_path, f"- {rule}") == f":1: {expected}"
