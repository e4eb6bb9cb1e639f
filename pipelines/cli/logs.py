"""Logging of the command and of its worker processes."""

import logging

_OWN = ("pipelines", "schemas", "transforms")
_LEVELS = (logging.ERROR, logging.WARNING, logging.INFO, logging.DEBUG)


def configure(verbosity: int) -> None:
    """Log to stderr: errors at -1 (`-q`), warnings at 0, progress at 1 (`-v`), all at 2 (`-vv`).

    Libraries log two levels less. Beam logs only at `-vv`, because its errors reach the user as
    exceptions. Call this before Beam is imported, which logs while it loads.
    """
    level = min(verbosity + 1, len(_LEVELS) - 1)
    logging.basicConfig(format="%(levelname)s %(name)s: %(message)s")
    logging.getLogger().setLevel(_LEVELS[max(level - 2, 0)])
    for name in _OWN:
        logging.getLogger(name).setLevel(_LEVELS[level])
    beam = logging.WARNING if verbosity > 1 else logging.CRITICAL + 1
    logging.getLogger("apache_beam").setLevel(beam)
