"""What all tests share: hypothesis, golden files, the memory of workers, and skipped tests."""

import ctypes
import gc
import os
import signal
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from feedferry.transforms import registry
from support import work_units
from support.programs_needed import summary_of_skips

ROOT = Path(__file__).parents[1]
settings.register_profile(  # a busy machine is not a failing test
    "local", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("ci", settings.get_profile("local"), derandomize=True, print_blob=True)
settings.register_profile("quick", settings.get_profile("local"), max_examples=20)
signal.signal(signal.SIGINT, signal.default_int_handler)  # a script may have it ignored above us

SERVERS = {"postgresql_server", "mariadb_server"}
"""Fixtures that start a database server: tests that use them are slow."""

MAX_WORKER_BYTES = 800_000_000
WORKER_BYTES = pytest.StashKey[list[int]]()
_M_MMAP_THRESHOLD = -3  # of malloc.h
_MAPPED_BYTES = 128 << 10


_GROUPS = ("feedferry.formats", "feedferry.sources", "feedferry.appliances")
_INSTALLED = {point for group in _GROUPS for point in metadata.entry_points(group=group)}


def _added_by_tests(*, group: str) -> list[metadata.EntryPoint]:
    """Return the entry points of packages that tests add; others may be installed with ours."""
    return [point for point in metadata.entry_points(group=group) if point not in _INSTALLED]


def pytest_addoption(parser: pytest.Parser) -> None:
    """`pytest --accept` rewrites all expected and generated files; read the diff."""
    parser.addoption("--accept", action="store_true", help="rewrite expected and generated files")


@pytest.fixture
def accept(pytestconfig: pytest.Config) -> bool:
    """Whether to write the file that the test compares."""
    return bool(pytestconfig.getoption("--accept"))


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Run in a new folder, so that names in messages and manifests are short."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))  # worker processes find us from anywhere
    return tmp_path


@pytest.fixture(scope="session")
def object_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of an S3 server, which all tests share."""
    from support.seaweed import seaweed  # needs libraries that most tests do without

    with seaweed(tmp_path_factory.mktemp("seaweed")) as endpoint:
        yield endpoint


@pytest.fixture
def s3(object_server: str) -> Iterator[None]:
    """An empty bucket at s3://."""
    from support import remotes  # the same

    with remotes.s3_at(object_server) as client:
        yield
        remotes.empty_bucket(client)


def pytest_configure(config: pytest.Config) -> None:
    """Try fewer examples where slow tests are left out, and the same ones every time in CI.

    `--accept` runs slow tests too.
    """
    vars(registry)["entry_points"] = _added_by_tests
    if config.getoption("--accept"):
        config.option.markexpr = ""
    if hasattr(libc := ctypes.CDLL(None), "mallopt"):
        # The default of glibc, which it raises up to 32 MB whenever a larger block is freed. Large
        # blocks are then cut out of the heap, which never shrinks: 200 MB more in each worker.
        libc.mallopt(_M_MMAP_THRESHOLD, _MAPPED_BYTES)
    is_quick = config.getoption("markexpr") == "not slow"
    settings.load_profile("quick" if is_quick else "ci" if "CI" in os.environ else "local")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> Iterator[None]:
    if config.getoption("--accept"):  # only tests that compare a file which they can write
        items[:] = [item for item in items if "accept" in getattr(item, "fixturenames", ())]
    for item in items:
        if isinstance(item, pytest.Function) and SERVERS.intersection(item.fixturenames):
            item.add_marker(pytest.mark.slow)
    yield
    items[:] = [items[at] for at in work_units.order([item.nodeid for item in items])]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """Start one worker more than processors for slow tests: they wait for other processes."""
    is_quick = config.option.markexpr.startswith("not slow")
    return None if is_quick else (os.cpu_count() or 1) + 1


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> work_units.UnitScheduling:
    """Spread the tests over the workers, as `-n` asks for."""
    return work_units.UnitScheduling(config, log)


def pytest_collection_finish() -> None:
    """Do not search the tests for garbage: a collection takes 0.3 seconds otherwise."""
    gc.collect()
    gc.freeze()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Send the memory of a worker to the main process, where a worker above the limit fails."""
    if hasattr(session.config, "workeroutput"):
        if sys.platform == "linux":
            pages = int(Path("/proc/self/statm").read_text().split()[1])
            session.config.workeroutput["bytes"] = pages * os.sysconf("SC_PAGE_SIZE")
    elif max(session.config.stash.get(WORKER_BYTES, ()), default=0) > MAX_WORKER_BYTES:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:  # a worker of xdist
    sizes = node.config.stash.setdefault(WORKER_BYTES, [])
    sizes.append(getattr(node, "workeroutput", {}).get("bytes", 0))


def pytest_terminal_summary(terminalreporter: "pytest.TerminalReporter") -> None:
    """Show what was skipped, in one line for all missing programs, and the memory of workers."""
    reasons = [
        str(report.longrepr[2]).removeprefix("Skipped: ")
        for report in terminalreporter.stats.get("skipped", ())
    ]
    for line in summary_of_skips(reasons):
        terminalreporter.write_line(line)
    sizes: list[int] = terminalreporter.config.stash.get(WORKER_BYTES, [])
    if any(sizes):
        used = ", ".join(str(size // 1_000_000) for size in sizes)
        most = MAX_WORKER_BYTES // 1_000_000
        terminalreporter.write_line(f"memory of workers: {used} MB; at most {most} are expected")
