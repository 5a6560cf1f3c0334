"""What the figures were measured on and with."""

import os
import platform
from collections.abc import Iterator
from importlib.metadata import version

from benchmarks.stores import Stores

_PACKAGES = ("anarchon", "croniter", "cronsim", "celery", "redis", "hiredis", "asyncpg")


def facts(stores: Stores) -> list[str]:
    """Return the lines above the table."""
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    return [
        f"machine   {_processor()}, {_cores()} cores, {platform.system()} {platform.release()};"
        f" load before the first figure: {load}",
        f"python    {platform.python_implementation()} {platform.python_version()}",
        f"packages  {', '.join(f'{name} {version(name)}' for name in _PACKAGES)}",
        f"stores    {', '.join(_described(stores))}",
        "          servers, instances and this program share the machine; servers as the tests"
        " start them: Redis with appendfsync everysec, PostgreSQL with fsync off",
    ]


def _described(stores: Stores) -> Iterator[str]:
    for name in stores.names:
        store = stores.get(name)
        yield f"{name} ({store.version})" if store is not None else f"{name}: {stores.why(name)}"


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 0


def _processor() -> str:
    try:
        with open("/proc/cpuinfo") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
