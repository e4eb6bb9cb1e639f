"""Histories: nights in a row, from an empty source; one that breaks a promise is made shorter."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
from msgspec.structs import replace

from feedferry.pipelines.serve.cluster.rehearsal_cluster import RehearsalCluster
from feedferry.testing import scripted_server
from support.forks import forks
from support.histories.changes import (
    Change,
    Join,
    Night,
    Put,
    Regroup,
    Rename,
    Replace,
    applied,
    sent_again,
)
from support.histories.observed_index import Backend, ObservedIndex, stand_in
from support.histories.random_nights import RandomNights, first_state
from support.histories.simulation import Figures, Simulation, ViolationError
from support.histories.source_state import SourceState

MOST_REPLAYS = 60
IS_STRICT = bool(find_spec("feedferry.transforms.sinks.push.wire.search_index.tightening"))
"""Whether the program takes permissions away before it gives any."""

_PREPARE = """\
sys.path.insert(0, "tests")
from support.histories.fast_runs import prepare
prepare({mutant!r})
"""
Fails = Callable[[Sequence[Night]], bool]


class History(msgspec.Struct, frozen=True, kw_only=True):
    """The nights of a seed up to the one that broke a promise, if one did."""

    seed: int
    nights: tuple[Night, ...]
    figures: Figures
    violation: str | None


@contextmanager
def simulated(
    folder: Path, *, mutant: str = "", is_strict: bool = False, backend: Backend | None = None
) -> Iterator[Simulation]:
    """Yield a simulation whose index is that of a backend, or of a stand-in."""
    spool, job = folder / "spool", folder / "job"
    spool.mkdir()
    job.mkdir()
    with closing(RehearsalCluster(spool)) as cluster:
        index = ObservedIndex(backend or stand_in(cluster), is_strict=is_strict)
        prepare = _PREPARE.format(mutant=mutant)
        with scripted_server(index) as url, forks(job, prepare=prepare) as runs:
            yield Simulation(job, index, runs, url)


def explore(simulation: Simulation, seed: int, count: int) -> History:
    """Return the history of random nights after a first load, which ends with a violation."""
    random_nights, state = RandomNights(seed), first_state()
    nights: list[Night] = []
    violation = None
    try:
        for number in range(count + 1):
            is_first = number == 0
            listed = simulation.listed
            nights.append(
                random_nights.first(state) if is_first else random_nights.next(state, listed)
            )
            state = simulation.night(state, nights[-1])
    except ViolationError as exc:
        violation = str(exc)
    return History(seed=seed, nights=tuple(nights), figures=simulation.figures, violation=violation)


def shrink(nights: Sequence[Night], fails: Fails) -> list[Night]:
    """Return a shorter history that still fails, as far as a number of replays allows."""
    replays = 0

    def still_fails(shorter: Sequence[Night]) -> bool:
        nonlocal replays
        replays += 1
        return replays <= MOST_REPLAYS and fails(shorter)

    shortest = _last_nights(nights, still_fails)
    for night in range(len(shortest) - 1, -1, -1):
        for name in ("changes", "faults", "kills"):
            number = len(getattr(shortest[night], name))
            while number and replays < MOST_REPLAYS:
                number -= 1
                parts = getattr(shortest[night], name)
                fewer = (*parts[:number], *parts[number + 1 :])
                shorter = [*shortest]
                shorter[night] = replace(shorter[night], **{name: fewer})
                if still_fails(shorter):
                    shortest = shorter
    return shortest


def _last_nights(nights: Sequence[Night], fails: Fails) -> list[Night]:
    """Return as few of the last nights as fail after a load of the state before them."""
    count = 1
    while count < len(nights) - 1:
        state = first_state()
        for night in nights[:-count]:
            state = applied(state, night)
        shorter = [_load(state), *nights[-count:]]
        if fails(shorter):
            return shorter
        count *= 2
    return [*nights]


def _load(state: SourceState) -> Night:
    """Return a night after which a source has a state."""
    changes: list[Change] = [Rename(table=state.table)]
    changes.append(Replace(replaces_groups=state.replaces_groups))
    changes += (Join(login=name, groups=login.groups) for name, login in state.logins.items())
    changes += (
        Regroup(group=group, members=members, is_damaged=group in state.unknown_groups)
        for group, members in state.groups.items()
    )
    for key, item in state.items.items():
        changes.append(
            Put(
                key=key,
                item=item,
                sends=sent_again(item),
                damage="" if item.is_known or item.acl is None else "acl",
            )
        )
    return Night(changes=tuple(changes))


def replay(nights: Sequence[Night], *, mutant: str = "", is_strict: bool = False) -> str | None:
    """Return the violation of a history, if it has one."""
    with (
        TemporaryDirectory() as folder,
        simulated(Path(folder), mutant=mutant, is_strict=is_strict) as simulation,
    ):
        state = first_state()
        try:
            for night in nights:
                state = simulation.night(state, night)
        except ViolationError as exc:
            return str(exc)
    return None


def describe(history: History, *, mutant: str = "", is_strict: bool = False) -> str:
    """Return the violation of a history, its seed and the shortest history that fails."""

    def fails(nights: Sequence[Night]) -> bool:
        return replay(nights, mutant=mutant, is_strict=is_strict) is not None

    shortest = shrink(history.nights, fails)
    lines = [f"seed {history.seed}, {history.violation}", "", "a shorter history:"]
    for number, night in enumerate(shortest):
        lines.append(f"night {number}: {replace(night, changes=())}")
        lines += (f"    {change}" for change in night.changes)
    return "\n".join(lines)
