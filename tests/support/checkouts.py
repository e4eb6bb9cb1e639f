"""Clean checkouts of the repository, and what a new user types in them."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from support.runs import ROOT

_TYPED = re.compile(r"^```sh\n(.*?)^```$|^\$ ([^\n]+)$", re.MULTILINE | re.DOTALL)
_LISTENS = "until (: >/dev/tcp/127.0.0.1/{port}) 2>/dev/null; do sleep 0.1; done"


def clean_clone(folder: Path) -> Path:
    """Return a checkout of the files that git knows or would add, and nothing else."""
    names = git(ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0")
    for name in filter(None, names):
        if (ROOT / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name, follow_symlinks=False)
    git(folder, "init", "--quiet")
    git(folder, "add", "--all")
    git(folder, "-c", "user.name=a", "-c", "user.email=a", "commit", "--quiet", "--message=a")
    return folder


def git(folder: Path, *words: str) -> str:
    """Return what git prints in a folder."""
    command = ["git", "-C", str(folder), *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def script_of(page: str, port: int) -> str:
    """Return what a user types, in one shell: each command has to end with 0 or 1.

    `port` takes the place of 19900.
    """
    lines = ["trap 'kill $(jobs -p)' EXIT"]
    for block, command in _TYPED.findall(page):
        for line in (block or command).splitlines():
            if line.endswith(" &"):
                lines += [line, _LISTENS.format(port=19900)]
            else:
                typed = line.partition("   #")[0].strip()
                lines.append(f"{typed} || test $? = 1 || exit 9")
    return "\n".join(lines).replace("19900", str(port))


def new_environment() -> dict[str, str]:
    """Return the environment of a shell in which feedferry is not installed."""
    own = str(Path(sys.executable).parent)
    path = (name for name in os.environ["PATH"].split(os.pathsep) if name != own)
    names = {*os.environ} - {"PYTHONPATH", "VIRTUAL_ENV"}
    return {**{name: os.environ[name] for name in names}, "PATH": os.pathsep.join(path)}
