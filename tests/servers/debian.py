"""Unpacks Debian packages of any suite into a folder, with private lists and no installation.

The mirror is the one this machine's apt is set up with; only the suite is ours.
"""

import functools
import re
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from tests.servers.catalog import Deb
from tests.servers.errors import Unavailable

_LISTS_STAY_GOOD_FOR = 3600.0
# A suite older than or as old as the oldest host we run on uses the host's C library: Postgres
# starts its own programs by path, which a foreign loader would not follow.
_SUITES_ON_HOST_LIBC = ("bookworm", "bookworm-backports")
# These hold only what is newer than in another one.
_BUILT_UPON = {"bookworm-backports": "bookworm", "experimental": "sid"}
_LIBC = ("libc6", "libgcc-s1", "libstdc++6")
# Needed to install packages on a system, not to run these servers.
_NEVER = re.compile(
    "lib(perl|python|pam|debconf|semanage|sepol|audit|llvm|z3|proc|systemd-shared|mount|blkid"
    "|c-gconv)"
)
_KEYRINGS = ("debian-archive-keyring.gpg", "debian-archive-keyring.pgp")


def unpack_packages(deb: Deb, into: Path, apt_folder: Path) -> None:
    """Unpack the packages of ``deb`` and the libraries they need."""
    options = _apt_options(deb.suite, apt_folder / deb.suite)
    _update(options, apt_folder / deb.suite)
    archives = into / "archives"
    archives.mkdir()
    _run(["apt-get", *options, "download", *_closure(deb, options)], cwd=archives)
    for archive in sorted(archives.glob("*.deb")):
        _run(["dpkg", "-x", str(archive), str(into)])
        archive.unlink()
    archives.rmdir()


def _closure(deb: Deb, options: Sequence[str]) -> list[str]:
    """Return `package=version` of everything to unpack."""
    # What is not in that suite any more is not taken from the one that it builds upon.
    wanted = [f"{package}/{deb.suite}" for package in deb.packages]
    target = ["-t", deb.suite] if deb.suite in _BUILT_UPON else []
    options = [*options, *target, "--print-uris", "-qq", "--no-install-recommends"]
    uris = _run(["apt-get", *options, "-y", "install", *wanted])
    kept = []
    for line in uris.splitlines():
        package, version, _ = line.split()[1].split("_")
        library = package.startswith("lib") and not _NEVER.match(package)
        if deb.suite in _SUITES_ON_HOST_LIBC and package in _LIBC:
            continue
        if package in deb.packages or library:
            kept.append(f"{package}={version.replace('%3a', ':')}")
    return kept


def _update(options: Sequence[str], folder: Path) -> None:
    """Fetch the package lists, unless they were fetched within the last hour."""
    stamp = folder / "updated"
    if stamp.exists() and time.time() - stamp.stat().st_mtime < _LISTS_STAY_GOOD_FOR:
        return
    # With an error, not a warning, for a suite the mirror does not have.
    _run(["apt-get", *options, "-o", "APT::Update::Error-Mode=any", "update"])
    stamp.touch()


def _apt_options(suite: str, folder: Path) -> list[str]:
    """Return the options that keep apt off the system's own lists, cache and state."""
    (folder / "lists/partial").mkdir(parents=True, exist_ok=True)
    (folder / "cache/archives/partial").mkdir(parents=True, exist_ok=True)
    sources = folder / "sources.list"
    sources.write_text("".join(f"{line}\n" for line in _source_lines(suite)))
    settings = {
        "Dir::Etc::sourcelist": sources,
        "Dir::Etc::sourceparts": "-",
        "Dir::State::lists": folder / "lists",
        "Dir::Cache": folder / "cache",
        # As if nothing were installed, or libraries that this machine happens to have are left out.
        "Dir::State::status": "/dev/null",
        "APT::Sandbox::User": "root",
        "Debug::NoLocking": "1",
        "Acquire::Languages": "none",
        "Acquire::Retries": "3",
        "Acquire::http::Timeout": "20",
    }
    return ["-q", *(part for key, value in settings.items() for part in ("-o", f"{key}={value}"))]


def _source_lines(suite: str) -> list[str]:
    """Return the sources to resolve a suite's packages from."""
    main, security = _mirrors()
    base = _BUILT_UPON.get(suite, suite)
    key = next((k for k in _KEYRINGS if Path("/usr/share/keyrings", k).exists()), None)
    deb = f"deb [signed-by=/usr/share/keyrings/{key}]" if key else "deb"
    lines = [f"{deb} {main} {base} main"]
    if base != "sid":
        lines.append(f"{deb} {security} {base}-security main")
    if suite != base:
        lines.append(f"{deb} {main} {suite} main")
    return lines


@functools.cache
def _mirrors() -> tuple[str, str]:
    """Return the base addresses this machine takes Debian and its security updates from."""
    release = Path("/etc/os-release")
    if not release.exists() or not re.search(r"(?m)^ID=\"?debian\"?$", release.read_text()):
        raise Unavailable("its packages are Debian's, and this machine is not Debian")
    # `update --print-uris` reads every format of source lists, and asks no server.
    uris = _run(["apt-get", "update", "--print-uris"])
    found = re.findall(r"'(\S+?)/+dists/([^/]+)/main/", uris)
    security = [base for base, suite in found if suite.endswith("-security")]
    main = [base for base, suite in found if not suite.endswith("-security")]
    # A third party's list may name a suite as Debian does; Debian's own path ends so.
    main.sort(key=lambda base: not base.endswith("/debian"))
    if not main:
        raise Unavailable("this machine's apt is set up with no Debian mirror")
    return main[0], security[0] if security else f"{main[0]}-security"


def _run(command: Sequence[str], cwd: Path | None = None) -> str:
    try:
        done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=True)
    except FileNotFoundError as error:
        raise Unavailable(f"this machine has no {command[0]}") from error
    except subprocess.CalledProcessError as error:
        said = (error.stderr or error.stdout).strip().splitlines()
        raise Unavailable(f"{command[0]} failed: {' / '.join(said[-3:])}") from error
    return done.stdout
