"""A gateway to an index that is killed at random moments, while clients post and users search.

The feeds change ACLs of folders, documents and their ACLs. A model computes what users may see
after each number of feeds. A search may show a document only if one of the states permits it that
the index can have at that moment: from the feeds that are forwarded to those that are posted.
"""

import random
import signal
import threading
import time
from pathlib import Path

import msgspec

from feedferry.pipelines.serve.forward_journal import DeliveryOutcome, ForwardState
from support.archives import gsa_feed
from support.index_searches import found_by
from support.served import BOUND_SECONDS, post_form, serving, start, wait_until

HOST = "http://h.example/"
USERS = ("ann", "bob", "eve")
_FOLDERS = 5
_DOCUMENTS = 40
_LOOK_SECONDS = 0.02
_Visible = dict[str, frozenset[str]]


class StormFeeds:
    """The feeds in order: the datasource and the text of each, and what users see after it."""

    def __init__(self, seed: int, count: int) -> None:
        self._chance = random.Random(seed)
        self._folders: dict[str, list[str]] = {}
        self._alone: dict[str, list[str]] = {}
        self.documents: dict[str, str] = {}
        self.feeds: list[tuple[str, bytes]] = []
        self.visible: list[_Visible] = [self._state()]
        for number in range(count):
            source, record = self._next(number)
            self.feeds.append((source, gsa_feed(record, datasource=source)))
            self.visible.append(self._state())

    def _next(self, number: int) -> tuple[str, str]:
        chance = self._chance
        users = chance.sample(USERS, chance.randint(0, 2))
        stated = "".join(f'<principal scope="user" access="permit">{u}</principal>' for u in users)
        path = f"{chance.randrange(_DOCUMENTS):02d}"
        source = f"docs-{int(path) % 2}"
        if number < _FOLDERS or chance.random() < 0.3:
            folder = f"folder-{number if number < _FOLDERS else chance.randrange(_FOLDERS)}/"
            self._folders[folder] = users
            rule = 'inheritance-type="child-overrides"'
            return "folders", f'<acl url="{HOST}{folder}" {rule}>{stated}</acl>'
        if path in self.documents and chance.random() < 0.2:
            del self.documents[path]
            self._alone.pop(path, None)
            return source, f'<record url="{HOST}{path}" action="delete"/>'
        if self._is_alone(path) and (path not in self._alone or chance.random() < 0.3):
            self._alone[path] = users
            return source, f'<acl url="{HOST}{path}">{stated}</acl>'
        acl = "" if self._is_alone(path) else f'<acl inherit-from="{HOST}{self._folder(path)}"/>'
        self.documents[path] = text = f"version {number}"
        content = f"{acl}<content>{text}</content>"
        return source, f'<record url="{HOST}{path}" mimetype="text/plain">{content}</record>'

    def _is_alone(self, path: str) -> bool:
        """Whether the ACL of a document arrives alone; that of others inherits."""
        return int(path) % 5 == 0

    def _folder(self, path: str) -> str:
        return f"folder-{int(path) % _FOLDERS}/"

    def _state(self) -> _Visible:
        readers = {
            path: self._alone[path] if self._is_alone(path) else self._folders[self._folder(path)]
            for path in self.documents
        }
        return {user: frozenset(p for p, of in readers.items() if user in of) for user in USERS}


class GatewayStorm:
    """A storm at an index: `run` returns when all feeds are forwarded."""

    def __init__(self, folder: Path, url: str, port: int, *, seed: int, feeds: int) -> None:
        self.feeds = StormFeeds(seed, feeds)
        self.searches = 0
        self.violations: list[str] = []
        self._chance = random.Random(seed)
        self._url, self._port = url, port
        self._spool = folder / "gateway"
        self._posted = self._kills = 0
        self._is_over = threading.Event()

    def run(self, *, kills: int) -> None:
        client = threading.Thread(target=self._post, daemon=True)
        searcher = threading.Thread(target=self._search, daemon=True)
        client.start()
        searcher.start()
        flags = ("--port", str(self._port), "--forward", self._url, "--min-free", "0", "-q")
        step = len(self.feeds.feeds) // (kills + 1)
        for _ in range(kills):
            process = start("serve", "--spool", str(self._spool), *flags)
            enough = self._forwarded() + self._chance.randint(0, 2 * step)
            enough = min(enough, len(self.feeds.feeds) - 1)
            while process.poll() is None and self._forwarded() < enough:
                time.sleep(_LOOK_SECONDS)
            time.sleep(self._chance.random() / 4)
            process.send_signal(signal.SIGKILL)
            process.communicate(timeout=BOUND_SECONDS)
            self._kills += 1
        with serving(self._spool, *flags) as gateway:
            client.join(BOUND_SECONDS)
            wait_until(lambda: gateway.get("/getbacklogcount") == b"0")
        self._is_over.set()
        searcher.join(BOUND_SECONDS)

    def seen(self) -> _Visible:
        return {user: frozenset(found_by(self._url, user, base=HOST)) for user in USERS}

    def states(self) -> set[ForwardState]:
        return {each.state for each in self._journal()}

    def _post(self) -> None:
        for source, text in self.feeds.feeds:
            self._posted += 1
            fields = (f"datasource={source}", "feedtype=incremental", "data=<-")
            url = f"http://127.0.0.1:{self._port}/xmlfeed"
            wait_until(
                lambda fields=fields, text=text, url=url: (
                    post_form(url, *fields, text=text)  # type: ignore[misc]  # bound
                    == b"Success"
                )
            )

    def _search(self) -> None:
        """Search as each user in turn, and compare with the states that the index may have."""
        while not self._is_over.is_set():
            user = USERS[self.searches % len(USERS)]
            first = max(self._forwarded() - self._kills, 0)  # each kill may repeat a feed
            try:
                found = found_by(self._url, user, base=HOST)
            except OSError:  # there is no index yet
                continue
            last = self._posted
            self.searches += 1
            permitted = frozenset[str]().union(
                *(state[user] for state in self.feeds.visible[first : last + 1])
            )
            wrong = sorted(set(found) - permitted)
            if wrong:
                self.violations.append(f"{user} found {wrong} between feeds {first} and {last}")
            time.sleep(_LOOK_SECONDS)

    def _forwarded(self) -> int:
        return sum(1 + len(each.together) for each in self._journal())

    def _journal(self) -> list[DeliveryOutcome]:
        path = self._spool / "forward" / "forwarded.jsonl"
        text = path.read_bytes() if path.exists() else b""
        whole = text[: text.rfind(b"\n") + 1].splitlines()
        return [msgspec.json.decode(line, type=DeliveryOutcome) for line in whole]
