"""Debian's chromium for tests: headless, spoken to over a pipe, ended by its pid.

It speaks the DevTools protocol: JSON with a NUL after each message. It finds no host but
127.0.0.1, so that a test is sure to need no network. Every wait has a bound.
"""

import fcntl
import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from support.programs_needed import needs

needs_chromium = needs("chromium")

_SECONDS = 300
_BLOCK_BYTES = 1 << 16
_READS, _WRITES = 3, 4  # where chromium looks for its pipe
_FLAGS = (
    "--headless=new",
    "--remote-debugging-pipe",
    "--no-sandbox",  # a sandbox needs a user other than root
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-breakpad",
    "--disable-sync",
    "--no-default-browser-check",
    "--no-first-run",
    "--hide-scrollbars",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)


class Page:
    """A tab; `requests` are the urls that it asked for and `complaints` what its console says."""

    def __init__(self, pipe: "_Pipe", session: str) -> None:
        self._pipe, self._session = pipe, session
        self.requests: list[str] = []
        self.complaints: list[str] = []
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._call(f"{domain}.enable")
        self._call("Page.setLifecycleEventsEnabled", enabled=True)

    def open(self, url: str) -> None:
        """Return when the page at a url has been loaded, with all that it needs."""
        self.requests.clear()
        self.complaints.clear()
        navigated = self._call("Page.navigate", url=url)
        failed = navigated.get("errorText")
        assert failed is None, f"{url}: {failed}"
        self._pipe.wait(lambda message: _is_loaded(message, navigated["loaderId"]), self._note)

    def evaluate(self, script: str) -> Any:  # whatever JavaScript gives
        """Return the value of an expression."""
        result = self._call("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def named(self, role: str) -> list[str]:
        """Return the names of all that have a role for those who do not see the page."""
        nodes = self._call("Accessibility.getFullAXTree")["nodes"]
        having = (node for node in nodes if node.get("role", {}).get("value") == role)
        return [node.get("name", {}).get("value", "") for node in having]

    def set_device(self, width: int, height: int = 800, *, mobile: bool = False) -> None:
        size = {"width": width, "height": height, "deviceScaleFactor": 1}
        self._call("Emulation.setDeviceMetricsOverride", **size, mobile=mobile)

    def set_colours(self, scheme: str) -> None:
        """Prefer `light` or `dark`."""
        feature = {"name": "prefers-color-scheme", "value": scheme}
        self._call("Emulation.setEmulatedMedia", features=[feature])

    def print_with(self, scheme: str) -> None:
        """Show pages as they are printed by a reader who prefers `light` or `dark`."""
        feature = {"name": "prefers-color-scheme", "value": scheme}
        self._call("Emulation.setEmulatedMedia", media="print", features=[feature])

    def _call(self, method: str, **parameters: Any) -> dict[str, Any]:  # JSON
        number = self._pipe.send(method, parameters, session=self._session)
        return self._pipe.result(number, self._note)

    def _note(self, message: dict[str, Any]) -> None:
        parameters = message.get("params", {})
        match message.get("method"):
            case "Network.requestWillBeSent":
                self.requests.append(parameters["request"]["url"])
            case "Log.entryAdded":
                self.complaints.append(parameters["entry"]["text"])
            case "Runtime.consoleAPICalled":
                self.complaints.append(json.dumps(parameters["args"]))
            case "Runtime.exceptionThrown":
                self.complaints.append(parameters["exceptionDetails"]["text"])


def _is_loaded(message: dict[str, Any], loader: str) -> bool:
    """Whether it reports the load of this page, and not of the empty page of a new tab."""
    parameters = message.get("params", {})
    is_lifecycle = message.get("method") == "Page.lifecycleEvent"
    return is_lifecycle and (parameters["name"], parameters["loaderId"]) == ("load", loader)


class Browser:
    """A chromium that runs."""

    def __init__(self, pipe: "_Pipe") -> None:
        self._pipe = pipe

    @contextmanager
    def page(self) -> Iterator[Page]:
        """Yield a new tab, and close it."""
        target = self._call("Target.createTarget", url="about:blank")
        attached = self._call("Target.attachToTarget", **target, flatten=True)
        yield Page(self._pipe, attached["sessionId"])
        self._call("Target.closeTarget", **target)

    def _call(self, method: str, **parameters: Any) -> dict[str, Any]:  # JSON
        return self._pipe.result(self._pipe.send(method, parameters), lambda message: None)


@contextmanager
def browser(folder: Path) -> Iterator[Browser]:
    """Yield a chromium that keeps all it writes below a folder."""
    read, write, *far = _pipes()
    process = _start(folder, far)
    for end in far:
        os.close(end)
    pipe = _Pipe(read, write)
    try:
        yield Browser(pipe)
    finally:
        _end(process, pipe)
        os.close(read)
        os.close(write)


class _Pipe:
    """Messages to chromium and from it."""

    def __init__(self, read: int, write: int) -> None:
        self._read, self._write = read, write
        self._rest = b""
        self._number = 0

    def send(self, method: str, parameters: dict[str, Any], *, session: str | None = None) -> int:
        """Return the number that the answer will have."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if session is not None:
            message["sessionId"] = session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        return self._number

    def result(self, number: int, note: Any) -> dict[str, Any]:  # JSON
        answer = self.wait(lambda message: message.get("id") == number, note)
        assert "error" not in answer, answer["error"]
        result: dict[str, Any] = answer["result"]
        return result

    def wait(self, is_sought: Any, note: Any) -> dict[str, Any]:  # JSON
        """Return the message that is sought, once each before it has been noted."""
        deadline = time.monotonic() + _SECONDS
        while not is_sought(message := self._next(deadline)):
            note(message)
        return message

    def _next(self, deadline: float) -> dict[str, Any]:
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._read], [], [], max(deadline - time.monotonic(), 0))
            block = os.read(self._read, _BLOCK_BYTES) if ready else b""
            assert block, f"chromium has ended, or says nothing for {_SECONDS} seconds"
            self._rest += block
        line, _, self._rest = self._rest.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        return message


def _pipes() -> tuple[int, int, int, int]:
    """Our two ends and the two of chromium, none of which is where chromium looks for them."""
    far_read, write = os.pipe()
    read, far_write = os.pipe()
    ends = (read, write, far_read, far_write)
    moved = tuple(fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in ends)
    for end in ends:
        os.close(end)
    return moved[0], moved[1], moved[2], moved[3]


def _start(folder: Path, ends: list[int]) -> subprocess.Popen[bytes]:
    shell = f'exec "$@" {_READS}<&{ends[0]} {_WRITES}>&{ends[1]}'
    return subprocess.Popen(
        ["bash", "-c", shell, "bash", "chromium", *_FLAGS, f"--user-data-dir={folder}/profile"],
        env={**os.environ, "HOME": str(folder), "XDG_CONFIG_HOME": str(folder / "config")},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=ends,
        start_new_session=True,  # so that all of its processes can be ended by its pid
    )


def _end(process: subprocess.Popen[bytes], pipe: _Pipe) -> None:
    with suppress(OSError, AssertionError):
        pipe.send("Browser.close", {})
    with suppress(subprocess.TimeoutExpired):
        process.wait(5)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(_SECONDS)
