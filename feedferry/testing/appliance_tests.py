"""The tests of a kind of appliance, made from its kit: real pushes to a server on loopback."""

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from shutil import copytree
from tempfile import TemporaryDirectory
from typing import ClassVar

import pytest
from msgspec.structs import replace

from feedferry.pipelines.job.file.flag_job import job_of_flags
from feedferry.pipelines.job.run.engine import convert
from feedferry.pipelines.observer.observer import Observer
from feedferry.pipelines.options.push_options import parse_push
from feedferry.pipelines.push.engine import push
from feedferry.pipelines.push.record import PushResult
from feedferry.schemas.receipt import ChunkState
from feedferry.schemas.record import Action, Arrival, Content, Record
from feedferry.schemas.reject import Reject
from feedferry.testing.appliance_kit import ApplianceKit
from feedferry.testing.format_kit import HOST
from feedferry.testing.scripted_server import (
    ScriptedReply,
    ScriptedRequest,
    scripted_server,
)
from feedferry.transforms.formats import FORMATS
from feedferry.transforms.formats.canonical.jsonl import line
from feedferry.transforms.net.retry import RetryPolicy
from feedferry.transforms.sinks.push.wire.address import APPLIANCES, find_kind
from feedferry.transforms.storage.atomic import read_rejects

URLS = tuple(f"{HOST}/{number}" for number in range(12))
_CHUNKS = (URLS[0:4], URLS[4:8], URLS[8:12])
_BAD = URLS[5]
_AT_ONCE = RetryPolicy(first_seconds=0.0, max_attempts=3)
_PUSH = (
    "import sys; from feedferry.pipelines.cli.main import main;"
    " sys.exit(main(['push', *sys.argv[1:], '--progress', 'none', '-q']))"
)
_STRANGERS = {
    "an empty reply": ScriptedReply(),
    "a page": ScriptedReply(body=b"<html><title>Log in</title></html>", content_type="text/html"),
    "a text": ScriptedReply(body=b"Welcome"),
    "an empty object": ScriptedReply(body=b"{}", content_type="application/json"),
    "a redirect": ScriptedReply(302, headers={"Location": "http://127.0.0.1:1/"}),
    "no credentials": ScriptedReply(401, b"no"),
    "no permission": ScriptedReply(403, b"no"),
    "no such address": ScriptedReply(404, b"no"),
}
"""Replies of servers that have taken nothing."""


class ScriptedAppliance:
    """An appliance that replies to requests with records by `answer`; it keeps their URLs."""

    def __init__(self, kit: ApplianceKit) -> None:
        self.kit = kit
        self.answer: Callable[[Sequence[str]], ScriptedReply] = kit.accept
        self.requests: list[tuple[str, ...]] = []
        self.taken: list[str] = []
        self.others: list[ScriptedRequest] = []
        self.url = ""

    def __call__(self, request: ScriptedRequest) -> ScriptedReply:
        urls = tuple(self.kit.urls_of(request.body))
        if not urls:
            self.others.append(request)
            return self.kit.others(request)
        self.requests.append(urls)
        reply = self.answer(urls)
        if reply == self.kit.accept(urls):
            self.taken += urls
        return reply


class ApplianceTests:
    """All tests of a kind of appliance; the package of the kit is installed."""

    kits: ClassVar[Sequence[ApplianceKit]]

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        if "kit" in metafunc.fixturenames:
            metafunc.parametrize("kit", self.kits, ids=[kit.name for kit in self.kits])

    @pytest.fixture
    def run(self, kit: ApplianceKit, tmp_path: Path) -> Path:
        """The folder of a finished run of three chunks with four documents each."""
        return copytree(Path(_converted(kit).name, "run"), tmp_path / "run")

    @pytest.fixture
    def appliance(self, kit: ApplianceKit) -> Iterator[ScriptedAppliance]:
        appliance = ScriptedAppliance(kit)
        with scripted_server(appliance) as url:
            appliance.url = url + kit.path
            yield appliance

    def test_it_is_found_by_its_name_and_by_its_address(self, kit: ApplianceKit) -> None:
        assert APPLIANCES.find(kit.name) is kit.appliance
        assert find_kind(f"http://127.0.0.1:19900{kit.path}")[0] is kit.appliance

    def test_it_takes_the_format(self, kit: ApplianceKit) -> None:
        assert FORMATS.find(kit.format.name) is kit.format
        endpoint = kit.appliance.endpoint_of(kit.format.name)
        assert endpoint is not None
        assert not (endpoint.feedtypes and not kit.format.has_feedtypes)

    def test_all_records_are_sent_once_and_in_order(
        self, appliance: ScriptedAppliance, run: Path
    ) -> None:
        first, second = _push(appliance, run), _push(appliance, run)
        assert appliance.requests == [*_CHUNKS]
        assert (first.exit_code, second.exit_code) == (0, 0)
        assert _states(first) == [ChunkState.ACCEPTED] * 3
        assert second.account.earlier_chunks == 3
        assert second.account.steps == first.account.steps
        assert _rejects(run) == []

    def test_a_busy_appliance_is_asked_again(
        self, kit: ApplianceKit, appliance: ScriptedAppliance, run: Path
    ) -> None:
        _push(appliance, run)
        replies: list[ScriptedReply] = []
        appliance.answer = lambda urls: replies.pop() if replies else kit.accept(urls)
        for busy in kit.busy:
            appliance.requests.clear()
            replies.append(busy)
            result = _push(appliance, run, replay=True)
            assert appliance.requests == [_CHUNKS[0], *_CHUNKS], busy
            assert result.exit_code == 0
            assert [outcome.attempts for outcome in result.account.outcomes] == [2, 1, 1]

    def test_an_appliance_that_stays_busy_stops_the_push(
        self, kit: ApplianceKit, appliance: ScriptedAppliance, run: Path
    ) -> None:
        appliance.answer = lambda urls: kit.busy[0] if _BAD in urls else kit.accept(urls)
        stopped = _push(appliance, run)
        assert stopped.exit_code == 4
        assert appliance.taken == [*_CHUNKS[0]]
        assert _states(stopped)[0] is ChunkState.ACCEPTED
        appliance.answer = kit.accept
        assert _push(appliance, run).exit_code == 0
        assert appliance.taken == [*URLS]

    def test_a_request_that_is_too_large_is_halved(
        self, kit: ApplianceKit, appliance: ScriptedAppliance, run: Path
    ) -> None:
        appliance.answer = lambda urls: kit.too_large if len(urls) > 1 else kit.accept(urls)
        result = _push(appliance, run)
        assert appliance.taken == [*URLS]
        assert result.exit_code == 0
        assert _rejects(run) == []
        appliance.requests.clear()
        assert _push(appliance, run).exit_code == 0
        assert appliance.requests == []

    def test_a_halved_chunk_continues_after_a_stop(
        self, kit: ApplianceKit, appliance: ScriptedAppliance, run: Path
    ) -> None:
        def small_only(urls: Sequence[str]) -> ScriptedReply:
            if len(urls) > 1:
                return kit.too_large
            return kit.busy[0] if _BAD in urls else kit.accept(urls)

        appliance.answer = small_only
        assert _push(appliance, run).exit_code == 4
        appliance.answer = lambda urls: kit.too_large if len(urls) > 1 else kit.accept(urls)
        assert _push(appliance, run).exit_code == 0
        assert sorted(appliance.taken) == sorted(URLS)

    def test_a_refused_record_is_a_reject_with_its_own_bytes_and_costs_no_other(
        self, kit: ApplianceKit, appliance: ScriptedAppliance, run: Path
    ) -> None:
        def refuse(urls: Sequence[str]) -> ScriptedReply:
            if _BAD not in urls:
                return kit.accept(urls)
            if kit.refuse is None:
                return kit.ill_formed
            return kit.refuse(urls, {_BAD})

        appliance.answer = refuse
        result = _push(appliance, run)
        sent = {url for urls in appliance.requests for url in urls}
        assert sent == {*URLS}
        assert result.exit_code == 1
        (reject,) = _rejects(run)
        assert (reject.url, reject.stage) == (_BAD, "push")
        chunk = (run / result.account.outcomes[1].chunk.path).read_bytes()
        assert chunk[reject.offset : reject.offset + reject.length] == reject.data
        assert b"the text of 5" in reject.data
        assert not any(f"the text of {other}".encode() in reject.data for other in (4, 6, 7))
        assert sum(outcome.accepted for outcome in result.account.outcomes) == 11

    def test_a_request_that_is_refused_as_a_whole_is_searched_for_its_bad_record(
        self, kit: ApplianceKit, appliance: ScriptedAppliance, run: Path
    ) -> None:
        appliance.answer = lambda urls: kit.ill_formed if _BAD in urls else kit.accept(urls)
        result = _push(appliance, run)
        assert appliance.taken == [url for url in URLS if url != _BAD]
        assert result.exit_code == 1
        assert [reject.url for reject in _rejects(run)] == [_BAD]

    @pytest.mark.parametrize("reply", _STRANGERS.values(), ids=_STRANGERS)
    def test_a_reply_of_another_server_accepts_nothing(
        self, appliance: ScriptedAppliance, run: Path, reply: ScriptedReply
    ) -> None:
        appliance.answer = lambda _urls: reply
        result = _push(appliance, run)
        assert result.exit_code in (1, 4)
        assert sum(outcome.accepted for outcome in result.account.outcomes) == 0
        assert not {*_states(result)} & {ChunkState.ACCEPTED, ChunkState.PARTLY_ACCEPTED}

    def test_a_reply_for_fewer_records_accepts_none_of_them(
        self, kit: ApplianceKit, appliance: ScriptedAppliance, run: Path
    ) -> None:
        if kit.accept(URLS[:1]) == kit.accept(URLS[:2]):
            return  # a reply states no number
        appliance.answer = lambda urls: kit.accept(urls[:1])
        result = _push(appliance, run)
        assert result.exit_code == 0
        assert [urls for urls in appliance.requests if len(urls) == 1] == [(url,) for url in URLS]

    def test_a_run_is_not_finished_before_its_chunks_are_settled(
        self, kit: ApplianceKit, appliance: ScriptedAppliance, run: Path
    ) -> None:
        appliance.answer = lambda urls: kit.busy[0] if _BAD in urls else kit.accept(urls)
        begun = _push(appliance, run).account.steps
        appliance.answer = kit.accept
        ended = _push(appliance, run).account.steps
        assert [*ended][: len(begun)] == [*begun]
        assert (len(ended) > len(begun)) == (kit.appliance.finish is not None)

    def test_steps_are_done_again_if_the_receipts_are_removed(
        self, appliance: ScriptedAppliance, run: Path
    ) -> None:
        first = _push(appliance, run)
        count = len(appliance.others)
        appliance.others.clear()
        for path in run.glob("push/*/receipts-*"):
            path.unlink()
        assert [*_push(appliance, run).account.steps] == [*first.account.steps]
        assert len(appliance.others) == count
        assert appliance.requests == [*_CHUNKS, *_CHUNKS]

    def test_a_push_that_is_killed_continues(
        self, kit: ApplianceKit, appliance: ScriptedAppliance, run: Path
    ) -> None:
        command = [sys.executable, "-P", "-c", _PUSH, str(run), "--to", appliance.url]
        command += ["--profile", kit.profile] if kit.profile else []
        paths = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        processes: list[subprocess.Popen[bytes]] = []

        def kill(urls: Sequence[str]) -> ScriptedReply:
            if _BAD in urls:
                processes[0].kill()
                processes[0].wait()
            return kit.accept(urls)

        appliance.answer = kill
        with subprocess.Popen(command, cwd=run.parent, env=os.environ | paths) as process:
            processes.append(process)
            assert process.wait() == -signal.SIGKILL
        appliance.answer = kit.accept
        result = _push(appliance, run)
        assert result.exit_code == 0
        assert _states(result) == [ChunkState.ACCEPTED] * 3
        assert Counter(appliance.requests) == {_CHUNKS[0]: 1, _CHUNKS[1]: 2, _CHUNKS[2]: 1}


def _push(appliance: ScriptedAppliance, run: Path, **more: object) -> PushResult:
    """Push a run in this process, without pauses between attempts."""
    words = {"inputs": (str(run),), "url": appliance.url, "profile": appliance.kit.profile, **more}
    options, settings = parse_push(words)
    (result,) = push(options, replace(settings, retry=_AT_ONCE), Observer())
    return result


def _states(result: PushResult) -> list[ChunkState]:
    return [outcome.state for outcome in result.account.outcomes]


def _rejects(run: Path) -> list[Reject]:
    files = sorted(run.glob("rejects/push-*.avro"))
    return [reject for path in files for reject in read_rejects(path)]


@cache
def _converted(kit: ApplianceKit) -> "TemporaryDirectory[str]":
    """A folder with a run that is converted once for all tests of a kit."""
    folder = TemporaryDirectory(prefix="feedferry-kit-")
    source = Path(folder.name, "documents.jsonl")
    source.write_bytes(b"".join(line(_document(url)) for url in URLS))
    words = {
        "inputs": (str(source),),
        "output": str(Path(folder.name, "run")),
        "to_format": kit.format.name,
        "max_chunk_records": "4",
    }
    convert(job_of_flags({**words, **kit.settings, "url": None}), Observer())
    return folder


def _document(url: str) -> Record:
    text = f"the text of {url.rpartition('/')[2]}".encode()
    return Record(
        url=url,
        action=Action.ADD,
        arrival=Arrival.PUSHED,
        mimetype="text/plain",
        content=Content(text),
    )
