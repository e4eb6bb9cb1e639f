"""What a scenario makes of each request, and what its file cannot say."""

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pipelines.serve.rehearsal.scenario import _PARSERS, NONE, Behaviour, Curve, Scenario, load
from schemas.delivery import Door
from schemas.errors import ConfigError
from support.pages import read_page

PAGE = read_page("docs/scenarios.md")
ROWS = "\n".join(line for line in PAGE.splitlines() if line.startswith("|"))
SHOWN = dict(re.findall(r'```yaml title="(.*?)"\n(.*?)```', PAGE, re.DOTALL))
CURVES = re.findall(r"^\| `(.*)` \|", PAGE.partition("\n## Backlog\n")[2], re.MULTILINE)[1:]

FULL = "Feed not accepted due to insufficient disk space. Contact Google for Work Support."
IN_ORDER = Behaviour()
DISK_FULL = Behaviour(status=200, text=FULL)
BROKEN = Behaviour(status=500, text="Internal Error")
FEED, GROUPS, DATA, COUNT = Door.FEED, Door.GROUPS, Door.DATA, None


def loaded(folder: Path, text: str, *, name: str = "scenario.yaml") -> Scenario:
    path = folder / name
    path.write_text(text, "utf-8")
    return load(path)


def refusal(folder: Path, text: str) -> str:
    """What is said of a file, behind its name."""
    with pytest.raises(ConfigError) as caught:
        loaded(folder, text)
    name = str(folder / "scenario.yaml")
    assert str(caught.value).startswith(name)
    return str(caught.value).removeprefix(name)


def met(scenario: Scenario, *doors: Door | None, now: float = 0) -> list[Behaviour]:
    return [scenario.next(door, now) for door in doors]


def shown(name: str, folder: Path) -> Scenario:
    return loaded(folder, SHOWN[name])


def counts(scenario: Scenario, *moments: float) -> list[int | None]:
    return [scenario.next(COUNT, now).backlog for now in moments]


def test_without_a_scenario_an_appliance_is_in_good_order() -> None:
    assert met(NONE, FEED, GROUPS, DATA, COUNT) == [IN_ORDER] * 4


def test_good_order_sets_nothing() -> None:
    assert (
        Behaviour(
            status=None,
            text=None,
            content_type="text/plain",
            delay_seconds=0,
            tear="",
            refuse_urls=frozenset(),
            backlog=None,
            bytes_per_second=None,
        )
        == IN_ORDER
    )


@pytest.mark.parametrize("key", sorted(_PARSERS))
def test_a_key_is_in_a_row_of_the_page(key: str) -> None:
    assert f"| `{key}` |" in ROWS


@pytest.mark.parametrize("name", sorted(SHOWN))
def test_a_scenario_that_the_page_shows_can_be_used(tmp_path: Path, name: str) -> None:
    assert isinstance(shown(name, tmp_path).next(FEED, 0), Behaviour)


@pytest.mark.parametrize("curve", CURVES)
def test_a_backlog_that_the_page_shows_can_be_used(tmp_path: Path, curve: str) -> None:
    counted = loaded(tmp_path, f"- backlog: {curve}").next(COUNT, 0).backlog
    assert counted in {0, 100, 4500}


def test_the_page_shows_every_way_to_tell_a_backlog() -> None:
    assert len(CURVES) == 6


class TestOfThePage:
    def test_the_disk_is_full_for_a_while(self, tmp_path: Path) -> None:
        scenario = shown("disk-full.yaml", tmp_path)
        assert [scenario.next(FEED, now) for now in (0, 29.9, 30)] == [
            *(DISK_FULL, DISK_FULL, IN_ORDER)
        ]

    def test_the_count_does_not_mind_a_full_disk(self, tmp_path: Path) -> None:
        assert met(shown("disk-full.yaml", tmp_path), COUNT, DATA) == [IN_ORDER, IN_ORDER]

    def test_the_backlog_rises_and_falls_with_the_requests(self, tmp_path: Path) -> None:
        scenario = shown("backlog.yaml", tmp_path)
        assert counts(scenario, *range(10)) == [
            *(0, 2500, 4001, 6000, 6000, 3000, 1000, 999, 999, 999)
        ]

    def test_the_backlog_rises_and_falls_over_time(self, tmp_path: Path) -> None:
        scenario = shown("backlog-over-time.yaml", tmp_path)
        assert counts(scenario, 0, 0.01, 30, 60, 100, 180, 240, 300, 9999) == [
            *(0, 1, 3000, 6000, 6000, 6000, 3000, 0, 0)
        ]

    def test_an_old_appliance_knows_no_backlog(self, tmp_path: Path) -> None:
        scenario = shown("no-backlog.yaml", tmp_path)
        assert met(scenario, COUNT, FEED) == [Behaviour(status=404, text="Not Found"), IN_ORDER]

    def test_a_backlog_cannot_be_had_for_a_while(self, tmp_path: Path) -> None:
        negative = Behaviour(status=200, text="-1")
        page = Behaviour(status=200, text="<html>Please log in</html>", content_type="text/html")
        assert met(shown("backlog-unknown.yaml", tmp_path), *[COUNT] * 7) == [
            *(negative, negative, page, page, page, Behaviour(delay_seconds=120), IN_ORDER)
        ]

    def test_the_first_three_feeds_meet_a_fault(self, tmp_path: Path) -> None:
        scenario = shown("internal-error.yaml", tmp_path)
        assert met(scenario, FEED, FEED, GROUPS, FEED, FEED) == [
            *(BROKEN, BROKEN, IN_ORDER, BROKEN, IN_ORDER)
        ]

    def test_an_appliance_is_slow(self, tmp_path: Path) -> None:
        slow = Behaviour(bytes_per_second=262_144, delay_seconds=5)
        assert met(shown("slow.yaml", tmp_path), FEED, DATA, COUNT) == [slow, slow, IN_ORDER]

    def test_connections_are_torn(self, tmp_path: Path) -> None:
        torn = met(shown("torn.yaml", tmp_path), *[FEED] * 15)
        assert [behaviour.tear for behaviour in torn] == [
            *("", "", "before-reply", "", "in-body", "before-reply", "at-once", ""),
            *("before-reply", "in-body", "", "before-reply", "", "at-once", "in-body"),
        ]

    def test_one_url_is_refused(self, tmp_path: Path) -> None:
        urls = frozenset({"http://intranet.example.com/board/minutes.pdf"})
        scenario = shown("refused-url.yaml", tmp_path)
        assert met(scenario, DATA, FEED, GROUPS) == [
            *(Behaviour(refuse_urls=urls), Behaviour(refuse_urls=urls), IN_ORDER)
        ]

    def test_the_appliance_says_what_the_file_says(self, tmp_path: Path) -> None:
        assert met(shown("refused.yaml", tmp_path), GROUPS, FEED, DATA) == [
            Behaviour(status=200, text="error: group db at capacity."),
            Behaviour(status=200, text="Error - Unauthorized Request"),
            IN_ORDER,
        ]

    def test_a_bad_day_has_it_all(self, tmp_path: Path) -> None:
        scenario = shown("bad-day.yaml", tmp_path)
        assert met(scenario, *[FEED] * 10) == [
            *(IN_ORDER, IN_ORDER, DISK_FULL, DISK_FULL, DISK_FULL),
            *(IN_ORDER, IN_ORDER, IN_ORDER, IN_ORDER),
            Behaviour(bytes_per_second=1_048_576, tear="before-reply"),
        ]
        away = Behaviour(status=503, text="Service Unavailable")
        assert met(scenario, GROUPS, now=600) == [away]
        assert scenario.next(COUNT, 1800) == Behaviour(backlog=6000)


class TestWhenARuleHolds:
    @pytest.mark.parametrize(
        ("when", "expected"),
        [
            ("requests: 2", [2]),
            ("requests: 2-4", [2, 3, 4]),
            ("requests: 9-", [9, 10]),
            ("requests: 10-99", [10]),
            ("first: 2", [1, 2]),
            ("every: 4", [4, 8]),
            ("every: 3, first: 2", [3, 6]),
            ("requests: 4-8, every: 2", [5, 7]),
            ("requests: 4-8, first: 1", [4]),
            ("requests: 4-, every: 2, first: 2", [5, 7]),
        ],
    )
    def test_requests_are_numbered_from_one(
        self, tmp_path: Path, when: str, expected: list[int]
    ) -> None:
        scenario = loaded(tmp_path, f"- {{{when}, status: 500}}")
        found = met(scenario, *[FEED] * 10)
        assert [number for number, one in enumerate(found, 1) if one == BROKEN] == expected

    @pytest.mark.parametrize(
        ("when", "expected"),
        [
            ("after: 10s", [10, 11, 60, 61]),
            ("after: 0s", [0, 9.9, 10, 11, 60, 61]),
            ("until: 10s", [0, 9.9]),
            ("after: 10s, until: 1m", [10, 11]),
            ("after: 10s, first: 1", [10]),
            ("after: 10s, every: 2", [11, 61]),
            ("after: 10s, requests: 1-3", [10]),
        ],
    )
    def test_moments_are_counted_from_the_start(
        self, tmp_path: Path, when: str, expected: list[float]
    ) -> None:
        scenario = loaded(tmp_path, f"- {{{when}, status: 500}}")
        moments = (0, 9.9, 10, 11, 60, 61)
        assert [now for now in moments if scenario.next(FEED, now) == BROKEN] == expected

    def test_the_requests_at_other_doors_have_no_number(self, tmp_path: Path) -> None:
        scenario = loaded(tmp_path, "- {door: xmlgroups, requests: 2, status: 500}")
        assert met(scenario, FEED, GROUPS, DATA, GROUPS) == [IN_ORDER, IN_ORDER, IN_ORDER, BROKEN]

    def test_the_requests_at_several_doors_are_numbered_together(self, tmp_path: Path) -> None:
        scenario = loaded(tmp_path, "- {door: [xmlgroups, recvdata], requests: 2, status: 500}")
        assert met(scenario, FEED, GROUPS, DATA) == [IN_ORDER, IN_ORDER, BROKEN]

    @pytest.mark.parametrize("door", ["", "door: all, ", "door: [xmlfeed, all], "])
    def test_all_doors_are_all_four(self, tmp_path: Path, door: str) -> None:
        scenario = loaded(tmp_path, f"- {{{door}status: 500}}")
        assert met(scenario, FEED, GROUPS, DATA, COUNT) == [BROKEN] * 4

    def test_the_first_rule_that_holds_wins(self, tmp_path: Path) -> None:
        scenario = loaded(tmp_path, "- {requests: 2, text: a}\n- {text: b}")
        assert [one.text for one in met(scenario, FEED, FEED, FEED)] == ["b", "a", "b"]

    def test_a_rule_counts_the_requests_that_another_wins(self, tmp_path: Path) -> None:
        scenario = loaded(tmp_path, "- {requests: 2, text: a}\n- {first: 3, text: b}")
        assert [one.text for one in met(scenario, *[FEED] * 4)] == ["b", "a", "b", None]

    def test_a_scenario_that_is_loaded_again_begins_again(self, tmp_path: Path) -> None:
        text = "- {first: 1, status: 500}"
        assert met(loaded(tmp_path, text), FEED) == met(loaded(tmp_path, text), FEED) == [BROKEN]

    def test_threads_share_the_numbers(self, tmp_path: Path) -> None:
        scenario = loaded(tmp_path, "- {every: 4, status: 500}")
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(lambda _: scenario.next(FEED, 0), range(4000)))
        assert found.count(BROKEN) == 1000


class TestWhatHappensThen:
    @pytest.mark.parametrize(
        ("said", "expected"),
        [
            ("status: 200", Behaviour(status=200, text="OK")),
            ("status: 401", Behaviour(status=401, text="Error - Unauthorized Request")),
            ("status: 404", Behaviour(status=404, text="Not Found")),
            ("status: 500", Behaviour(status=500, text="Internal Error")),
            ("status: 599", Behaviour(status=599, text="")),
            ("status: 500, text: ''", Behaviour(status=500, text="")),
            ("text: success", Behaviour(status=200, text="success")),
            (
                "status: 502, text: <p>Bad, content_type: text/html; charset=utf-8",
                Behaviour(status=502, text="<p>Bad", content_type="text/html; charset=utf-8"),
            ),
            ("disk_full: true", DISK_FULL),
            ("tear: at-once", Behaviour(tear="at-once")),
            ("tear: in-body", Behaviour(tear="in-body")),
            ("tear: before-reply", Behaviour(tear="before-reply")),
            ("delay: 200ms", Behaviour(delay_seconds=0.2)),
            ("slow: 4096", Behaviour(bytes_per_second=4096)),
            (
                "slow: 1KiB, delay: 1s, status: 500",
                Behaviour(
                    status=500, text="Internal Error", bytes_per_second=1024, delay_seconds=1
                ),
            ),
            ("delay: 1s, tear: in-body", Behaviour(delay_seconds=1, tear="in-body")),
        ],
    )
    def test_a_rule_says_it(self, tmp_path: Path, said: str, expected: Behaviour) -> None:
        assert met(loaded(tmp_path, f"- {{{said}}}"), FEED) == [expected]

    def test_urls_are_refused_where_documents_come_in(self, tmp_path: Path) -> None:
        scenario = loaded(tmp_path, "- {refuse_urls: ['http://a/', 'http://b/']}")
        urls = frozenset({"http://a/", "http://b/"})
        refusing = Behaviour(refuse_urls=urls)
        assert met(scenario, FEED, GROUPS, DATA, COUNT) == [refusing, IN_ORDER, refusing, IN_ORDER]


class TestBacklog:
    def test_only_who_asks_for_it_is_told(self, tmp_path: Path) -> None:
        scenario = loaded(tmp_path, "- backlog: 4500")
        assert met(scenario, FEED, COUNT) == [IN_ORDER, Behaviour(backlog=4500)]

    def test_it_stands_apart_from_the_other_rules(self, tmp_path: Path) -> None:
        scenario = loaded(tmp_path, "- {delay: 1s}\n- {backlog: 7}\n- {backlog: 8}")
        assert met(scenario, COUNT) == [Behaviour(delay_seconds=1, backlog=7)]

    def test_the_first_rule_about_it_that_holds_wins(self, tmp_path: Path) -> None:
        scenario = loaded(tmp_path, "- {after: 5s, until: 9s, backlog: 7}\n- {backlog: 8}")
        assert counts(scenario, 4, 5, 9) == [8, 7, 8]

    def test_where_no_rule_holds_nothing_is_told(self, tmp_path: Path) -> None:
        assert counts(loaded(tmp_path, "- {requests: 2, backlog: 7}"), 0, 0, 0) == [None, 7, None]

    def test_steps_stay_until_the_next_moment(self, tmp_path: Path) -> None:
        scenario = loaded(tmp_path, "- backlog: {steps: {2m: 9, 1m: 50, 1.5m: 70}}")
        assert counts(scenario, 0, 60, 89.9, 90, 120, 500) == [50, 50, 50, 70, 9, 9]

    def test_steps_may_be_requests(self, tmp_path: Path) -> None:
        scenario = loaded(tmp_path, "- backlog: {steps: {2: 50, 4: 0}}")
        assert counts(scenario, 9, 9, 9, 9, 9) == [50, 50, 50, 0, 0]

    def test_a_ramp_goes_in_straight_lines(self, tmp_path: Path) -> None:
        scenario = loaded(tmp_path, "- backlog: {ramp: {10s: 100, 20s: 200, 40s: 0}}")
        assert counts(scenario, 0, 10, 15, 20, 30, 39, 40, 41) == [
            *(100, 100, 150, 200, 100, 10, 0, 0)
        ]

    def test_a_ramp_may_go_over_requests(self, tmp_path: Path) -> None:
        scenario = loaded(tmp_path, "- backlog: {ramp: {1: 0, 4: 9, 6: 0}}")
        assert counts(scenario, *[0] * 7) == [0, 3, 6, 9, 4, 0, 0]

    def test_requests_of_the_count_are_those_at_its_door(self, tmp_path: Path) -> None:
        scenario = loaded(tmp_path, "- backlog: [1, 2]")
        assert [one.backlog for one in met(scenario, COUNT, FEED, COUNT)] == [1, None, 2]

    def test_a_curve_of_one_point_is_flat(self) -> None:
        assert [Curve(points=((5, 3),), is_ramp=True).at(now) for now in (0, 5, 6)] == [3, 3, 3]


class TestFiles:
    def test_a_file_may_be_json(self, tmp_path: Path) -> None:
        text = '[\n  {"backlog": {"ramp": {"1": 0, "3": 10}}},\n  {"status": 500}\n]\n'
        scenario = loaded(tmp_path, text, name="scenario.json")
        assert met(scenario, COUNT, COUNT) == [
            Behaviour(status=500, text="Internal Error", backlog=0),
            Behaviour(status=500, text="Internal Error", backlog=5),
        ]

    def test_rules_may_share_keys(self, tmp_path: Path) -> None:
        text = "- &first {door: xmlfeed, requests: 1, text: a}\n- {<<: *first, requests: 2}\n"
        found = met(loaded(tmp_path, text), FEED, FEED, FEED)
        assert [one.text for one in found] == ["a", "a", None]

    def test_a_file_that_is_not_there_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError) as caught:
            load(tmp_path / "none.yaml")
        assert str(caught.value) == (
            f"{tmp_path / 'none.yaml'}: No such file or directory; expected a file that can be read"
        )

    def test_a_file_that_is_no_yaml_is_refused(self, tmp_path: Path) -> None:
        words = refusal(tmp_path, "- {status: 500")  # which the parser chose
        assert (words[:31], words[-15:]) == (": while parsing a flow mapping ", "; expected YAML")

    def test_the_line_is_that_of_the_key(self, tmp_path: Path) -> None:
        text = "# a comment\n- door: xmlfeed\n  status: 500\n\n- door: xmlfeed\n  status: 99\n"
        assert refusal(tmp_path, text) == (
            ":6: status: 99; expected a status of HTTP, from 200 to 599"
        )

    def test_the_line_of_what_keys_say_together_is_that_of_the_rule(self, tmp_path: Path) -> None:
        text = "- status: 500\n-\n  after: 5s\n  until: 5s\n  status: 500\n"
        assert refusal(tmp_path, text) == (
            ":3: until: '5s'; expected a moment that is later than '5s'"
        )

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("", ": None; expected a list of rules, with `-` before each"),
            ("[]", ": []; expected a list of rules, with `-` before each"),
            (
                "status: 500",
                ": {'status': 500}; expected a list of rules, with `-` before each",
            ),
        ],
    )
    def test_a_file_without_rules_is_refused(
        self, tmp_path: Path, text: str, expected: str
    ) -> None:
        assert refusal(tmp_path, text) == expected

    @pytest.mark.parametrize(
        ("rule", "expected"),
        [
            (
                "{statsu: 500}",
                "'statsu'; expected one of door, requests, after, until, every, first, status, "
                "text, content_type, disk_full, tear, refuse_urls, delay, slow, backlog; "
                "did you mean 'status'?",
            ),
            (
                "disk_full",
                "'disk_full'; expected keys and values: door, requests, after, until, every, "
                "first, status, text, content_type, disk_full, tear, refuse_urls, delay, slow, "
                "backlog",
            ),
            (
                "{door: xmlfeed}",
                "{'door': 'xmlfeed'}; expected what happens then: one of status, text, "
                "content_type, disk_full, tear, refuse_urls, delay, slow, backlog",
            ),
            (
                "{door: xmlfed, status: 500}",
                "door: 'xmlfed'; expected one of xmlfeed, xmlgroups, recvdata, getbacklogcount, "
                "all; did you mean 'xmlfeed'?",
            ),
            (
                "{door: [xmlfeed, groups], status: 500}",
                "door: 'groups'; expected one of xmlfeed, xmlgroups, recvdata, getbacklogcount, "
                "all; did you mean 'xmlgroups'?",
            ),
            (
                "{door: [], status: 500}",
                "door: []; expected one of xmlfeed, xmlgroups, recvdata, getbacklogcount, all",
            ),
            ("{door: 7, status: 500}", "door: 7; expected a text, so put it in quotes"),
            (
                "{requests: 0, status: 500}",
                "requests: 0; expected numbers from 1, such as 3, 3-5 or 3-",
            ),
            (
                "{requests: 3 to 5, status: 500}",
                "requests: '3 to 5'; expected numbers from 1, such as 3, 3-5 or 3-",
            ),
            ("{requests: 5-3, status: 500}", "requests: '5-3'; expected the lower number first"),
            (
                "{after: 10, status: 500}",
                "after: 10; expected a duration such as 200ms, 90s or 2h",
            ),
            (
                "{until: 0s, status: 500}",
                "until: '0s'; expected a duration such as 200ms, 90s or 2h",
            ),
            (
                "{after: 1m, until: 30s, status: 500}",
                "until: '30s'; expected a moment that is later than '1m'",
            ),
            ("{every: 0, status: 500}", "every: 0; expected a number, 1 or more"),
            ("{first: some, status: 500}", "first: 'some'; expected a number, 1 or more"),
            ("{status: 199}", "status: 199; expected a status of HTTP, from 200 to 599"),
            ("{status: '500'}", "status: '500'; expected a status of HTTP, from 200 to 599"),
            ("{status: yes}", "status: True; expected a status of HTTP, from 200 to 599"),
            ("{text: 0}", "text: 0; expected a text, so put it in quotes"),
            (
                '{text: a, content_type: "text/plain\\r\\nX: y"}',
                "content_type: 'text/plain\\r\\nX: y'; expected a type such as text/html",
            ),
            (
                "{content_type: text/html, delay: 1s}",
                "content_type: of no text; expected text beside it",
            ),
            ("{disk_full: false}", "disk_full: False; expected true, or no such key"),
            (
                "{door: recvdata, disk_full: true}",
                "door: 'recvdata'; expected xmlfeed or xmlgroups beside disk_full, or no door",
            ),
            (
                "{door: all, refuse_urls: [a]}",
                "door: 'all'; expected xmlfeed or recvdata beside refuse_urls, or no door",
            ),
            (
                "{door: xmlfeed, backlog: 5}",
                "door: 'xmlfeed'; expected getbacklogcount beside backlog, or no door",
            ),
            (
                "{tear: in body}",
                "tear: 'in body'; expected one of at-once, in-body, before-reply; "
                "did you mean 'in-body'?",
            ),
            ("{refuse_urls: []}", "refuse_urls: []; expected the urls that are refused"),
            ("{refuse_urls: a}", "refuse_urls: 'a'; expected a list: [a]"),
            ("{delay: 0s}", "delay: '0s'; expected a duration such as 200ms, 90s or 2h"),
            ("{slow: 1kB}", "slow: '1kB'; expected a size such as 4096, 64KiB or 256MiB"),
            (
                "{status: 500, tear: at-once}",
                "status, tear; expected one of them: a request has one answer",
            ),
            (
                "{text: a, status: 500, disk_full: true}",
                "text, status, disk_full; expected one of them: a request has one answer",
            ),
            ("{backlog: 5, delay: 1s}", "backlog, delay; expected backlog in a rule of its own"),
            ("{backlog: -1}", "backlog: -1; expected a number, 0 or more"),
            ("{backlog: [1, x]}", "backlog.2: 'x'; expected a number, 0 or more"),
            (
                "{backlog: []}",
                "backlog: []; expected counts by moment or by request, such as "
                "{0s: 0, 30s: 6000} or {1: 0, 10: 6000}",
            ),
            (
                "{backlog: {ramp: 5}}",
                "backlog.ramp: 5; expected counts by moment or by request, such as "
                "{0s: 0, 30s: 6000} or {1: 0, 10: 6000}",
            ),
            (
                "{backlog: {0s: 5}}",
                "backlog: {'0s': 5}; expected a number, a list of them, steps or ramp",
            ),
            (
                "{backlog: {}}",
                "backlog: {}; expected a number, a list of them, steps or ramp",
            ),
            (
                "{backlog: {steps: {1: 0}, ramp: {1: 0}}}",
                "backlog: {'steps': {1: 0}, 'ramp': {1: 0}}; "
                "expected a number, a list of them, steps or ramp",
            ),
            (
                "{backlog: {steps: {60s: 0, 1m: 5}}}",
                "backlog.steps: {'60s': 0, '1m': 5}; expected each moment once",
            ),
            ("{backlog: {steps: {0: 5}}}", "backlog.steps: 0; expected a number, 1 or more"),
            (
                "{backlog: {ramp: {1: 0, 30s: 5}}}",
                "backlog.ramp: 1; expected a duration such as 200ms, 90s or 2h",
            ),
            (
                "{backlog: {ramp: {0s: 1.5}}}",
                "backlog.ramp.0s: 1.5; expected a number, 0 or more",
            ),
        ],
    )
    def test_a_rule_that_cannot_be_used_is_refused(
        self, tmp_path: Path, rule: str, expected: str
    ) -> None:
        assert refusal(tmp_path, f"- {rule}") == f":1: {expected}"
