"""A job writes the groups that it keeps to an index, which applications ask."""

import json
import random
from pathlib import Path

import pytest

from support.forks import forks
from support.groups_job import DOCUMENTS, NESTED, GroupsJob, check_nights, group
from support.runs import chosen
from support.served import run, serving

pytestmark = pytest.mark.slow

SEED = 20261128
KILLS = chosen(usual=6, full=40)


def test_a_user_in_nested_groups_finds_what_they_permit_by_two_requests(tmp_path: Path) -> None:
    with serving(tmp_path / "spool") as cluster:
        check_nights(GroupsJob(tmp_path, cluster.url))


def test_the_command_prints_the_filter_of_the_groups_in_the_index(tmp_path: Path) -> None:
    with serving(tmp_path / "spool") as cluster:
        job = GroupsJob(tmp_path, cluster.url)
        job.night(DOCUMENTS, NESTED)
        kept = run("access", "bob", "--groups-feed", "runs/nights/state.acls", cwd=tmp_path)
        assert kept.returncode == 0
        assert _sorted(job.filter_of("bob")) == _sorted(kept.stdout)
        other = run("access", "bob", "--groups-index", f"{cluster.url}/docs", cwd=tmp_path)
        assert other.returncode == 4
        assert "an index that has no groups; expected another name" in other.stderr
        none = run("access", "bob", "--groups-index", f"{cluster.url}/none", cwd=tmp_path)
        assert none.returncode == 2
        expected = "none: no such index; expected the address of target.groups_index"
        assert expected in none.stderr


def test_no_groups_are_an_empty_index(tmp_path: Path) -> None:
    with serving(tmp_path / "spool") as cluster:
        job = GroupsJob(tmp_path, cluster.url)
        job.night(DOCUMENTS, NESTED)
        assert "docs-groups: 0 members of groups" in job.night(
            DOCUMENTS, [], "--set", "target.feedtype=full"
        )
        assert job.groups_of("ann") == []
        assert job.found_by("eve") == ["all"]


def test_the_index_has_the_names_that_the_steps_make(tmp_path: Path) -> None:
    table = tmp_path / "people.csv"
    with serving(tmp_path / "spool") as cluster:
        step = "transform:\n- principals: {table: people.csv, unmapped: keep}\n"
        job = GroupsJob(tmp_path, cluster.url, step)
        table.write_text("ann,anna\nboard,directors\n")
        job.night(DOCUMENTS, [group("board", "ann")])
        assert job.groups_of("anna") == ["directors"]
        assert (job.found_by("ann"), job.found_by("anna")) == (["all"], ["all", "board"])
        table.write_text("ann,eve\nboard,chairs\n")
        job.night(DOCUMENTS[:1], [])
        assert job.groups_of("eve") == ["chairs"]
        assert (job.found_by("anna"), job.found_by("eve")) == (["all"], ["all", "board"])


def test_an_unknown_group_removes_the_index_until_it_is_stated_again(tmp_path: Path) -> None:
    with serving(tmp_path / "spool") as cluster:
        job = GroupsJob(tmp_path, cluster.url)
        job.night(DOCUMENTS, NESTED)
        bad = group("guests", "").replace("USER", "PLANET")
        notices = job.night(DOCUMENTS, [bad], exit_code=1)
        assert "the group 'guests', of which a membership was set aside" in notices
        assert "docs-groups: removed" in notices
        assert "docs-groups" not in job.call("GET", "_alias")
        job.night(DOCUMENTS, [group("guests", "ann")])
        assert job.found_by("ann") == ["all", "staff"]
        assert job.found_by("bob") == ["all", "loyal", "staff"]


def test_an_index_of_others_stops_the_run_and_an_unfinished_one_is_removed(tmp_path: Path) -> None:
    with serving(tmp_path / "spool") as cluster:
        job = GroupsJob(tmp_path, cluster.url)
        other = "docs-groups"
        unfinished = "docs-groups-20260101-000000000000"
        for name in (other, unfinished):
            job.call("PUT", name, {"mappings": {"dynamic": "strict"}})
        stderr = job.night(DOCUMENTS, NESTED, exit_code=4)
        assert "docs-groups/_mapping: an index that has no groups; expected another" in stderr
        assert "docs-web" not in job.call("GET", "_alias")
        job.call("DELETE", other)
        notices = job.night(DOCUMENTS, NESTED, "--only-resume")
        assert "docs-groups: 8 members of groups" in notices
        assert job.found_by("eve") == ["all", "board"]
        assert unfinished not in job.call("GET", "_alias")


def test_a_run_that_is_killed_leaves_the_groups_before_it_or_its_own(tmp_path: Path) -> None:
    choice, words = random.Random(SEED), ("run", "nights.yaml", "--progress", "none")
    with serving(tmp_path / "spool") as cluster, forks(tmp_path) as runs:
        job = GroupsJob(tmp_path, cluster.url)
        job.write(DOCUMENTS, [*NESTED])
        operations = runs.run(*words).operations
        member, other, kills = "eve", "ann", 0
        while kills < KILLS:
            member, other = other, member
            job.write(DOCUMENTS, [group("board", member)])
            killed = runs.run(*words, last=choice.randrange(operations // 2, operations))
            kills += killed.returncode == -9
            holders = [user for user in ("ann", "eve") if "board" in job.groups_of(user)]
            assert holders in ([member], [other])
            resumed = runs.run(*words)
            assert resumed.returncode == 0, resumed.output
            assert "board" in job.found_by(member)
            assert "board" not in job.found_by(other)


def test_the_index_of_groups_has_another_name_than_that_of_documents(tmp_path: Path) -> None:
    with serving(tmp_path / "spool") as cluster:
        job = GroupsJob(tmp_path, cluster.url)
        stated = "--set", "target.groups_index=docs"
        stderr = job.night(DOCUMENTS, NESTED, *stated, exit_code=4)
        assert "'docs', the name of the indexes of documents; expected another name" in stderr


def test_a_conversion_without_a_state_keeps_no_groups(tmp_path: Path) -> None:
    (tmp_path / "feed.xml").write_text("<gsafeed/>")
    flags = "--to", "opensearch", "--push-to", "http://127.0.0.1:9/docs", "--set"
    done = run("convert", "feed.xml", "-o", "out", *flags, "target.groups_index=g", cwd=tmp_path)
    assert done.returncode == 2
    assert "groups are kept by a job, or next to a state" in done.stderr


def _sorted(text: str) -> str:
    """Return a filter with the tokens in order."""

    def ordered(value: object) -> object:
        if isinstance(value, dict):
            return {name: ordered(part) for name, part in value.items()}
        if isinstance(value, list):
            return sorted(map(ordered, value), key=str)
        return value

    return json.dumps(ordered(json.loads(text)))


def test_the_notice_of_groups_names_where_a_job_keeps_them(tmp_path: Path) -> None:
    with serving(tmp_path / "spool") as cluster:
        job = GroupsJob(tmp_path, cluster.url)
        job.write(DOCUMENTS, NESTED)
        done = run("run", "nights.yaml", "--progress", "none", cwd=tmp_path)

        assert "a group; the job keeps it in state.acls, which target.groups_ind" in done.stdout
        assert "in another run" not in done.stdout
    done = run("convert", "groups.xml", "-o", "out", "--to", "opensearch", cwd=tmp_path)
    assert "a group; the run does not send them: --to gsa-groups does" in done.stdout


def test_two_jobs_do_not_replace_the_groups_of_each_other(tmp_path: Path) -> None:
    with serving(tmp_path / "spool") as cluster:
        job = GroupsJob(tmp_path, cluster.url)
        job.night(DOCUMENTS, NESTED)
        other = "--set", "job=others", "--set", f"target.url={cluster.url}/others"
        stderr = job.night(DOCUMENTS, [group("board", "eve")], *other, exit_code=4)
        assert "docs-groups/_mapping: groups of the job 'nights'; expected those of" in stderr
        assert "'others': give another target.groups_index" in stderr
        bad = group("guests", "").replace("USER", "PLANET")
        assert "groups of the job 'nights'" in job.night(
            DOCUMENTS, [bad], *other, "--fresh", exit_code=4
        )
        assert job.groups_of("ann") == ["engineers", "everybody", "staff"]
        named = "--fresh", "--set", "target.groups_index=other-groups"
        assert "other-groups: " in job.night(DOCUMENTS, [group("board", "eve")], *other, *named)
        assert "docs-groups: " not in job.night(DOCUMENTS, NESTED)
