"""How much memory there is: a training that needs more is refused, not killed in the middle."""

from __future__ import annotations

import contextlib
import math
import os
from pathlib import Path

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

GROUP = Path("/sys/fs/cgroup")


def available() -> float:
    """Bytes that this process can still get; inf if the system does not tell."""
    found = [math.inf]
    for ask in (_system, _container, _limit):
        with contextlib.suppress(OSError, ValueError, KeyError, AttributeError):
            found.append(ask())
    return max(min(found), 0.0)


def _system() -> float:
    if Path("/proc/meminfo").exists():
        return 1024.0 * _table("/proc/meminfo")["MemAvailable:"]
    return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))


def _container() -> float:
    """What the control group allows, less what is used; cached files do not count."""
    most, used = ((GROUP / name).read_text().strip() for name in ("memory.max", "memory.current"))
    stat = _table(GROUP / "memory.stat")
    cached = stat["active_file"] + stat["inactive_file"]
    return math.inf if most == "max" else float(most) - float(used) + cached


def _limit() -> float:
    """The address space that `ulimit -v` leaves."""
    most, _ = resource.getrlimit(resource.RLIMIT_AS)
    if most == resource.RLIM_INFINITY:
        return math.inf
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    return float(most) - pages * os.sysconf("SC_PAGE_SIZE")


def _table(path: str | Path) -> dict[str, int]:
    """Lines that begin with a name and a number."""
    rows = (line.split() for line in Path(path).read_text().splitlines())
    return {row[0]: int(row[1]) for row in rows if len(row) > 1}
