"""The rules of a robots.txt for one agent.

**Spec:** RFC 9309. The longest rule that matches a path decides; of two that are as long, the one
that allows. The robotparser of the standard library knows neither this nor `*` and `$`.
"""

import re
from urllib.parse import quote, unquote

from feedferry.schemas.patterns import compile_robots_rule

_LINE = re.compile(r"\s*(user-agent|allow|disallow)\s*:([^#]*)", re.IGNORECASE)
_SAFE = "/*?[]$&=+;,:@!()'"


class RobotRules:
    """The rules of the groups that name an agent, else those of the groups for all agents."""

    def __init__(self, text: str, agent: str) -> None:
        groups: dict[str, list[tuple[str, bool]]] = {}
        agents: list[str] = []
        is_after_agent = False
        for line in filter(None, map(_LINE.match, text.splitlines())):
            key, value = line[1].lower(), line[2].strip()
            if key == "user-agent":
                agents = [*(agents if is_after_agent else ()), value.lower()]
                groups.setdefault(value.lower(), [])
            elif value:
                for name in agents:
                    groups[name].append((_normalized(value), key == "allow"))
            is_after_agent = key == "user-agent"
        rules = groups.get(agent, groups.get("*", []))
        rules.sort(key=lambda rule: (len(rule[0]), rule[1]), reverse=True)
        self._rules = [(compile_robots_rule(path), is_allowed) for path, is_allowed in rules]

    def allows(self, path: str) -> bool:
        """Whether the agent may get a path with its query."""
        path = _normalized(path)
        return next((allowed for pattern, allowed in self._rules if pattern.fullmatch(path)), True)


def _normalized(path: str) -> str:
    return quote(unquote(path), safe=_SAFE)
