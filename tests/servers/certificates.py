"""Certificates for servers that speak TLS, signed by an authority that nobody else knows."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.servers.errors import Unavailable
from tests.servers.process import HOST


@dataclass(frozen=True)
class Certificates:
    """A certificate for this machine, and that of who signed it."""

    authority: Path
    certificate: Path
    key: Path


def make_certificates(folder: Path) -> Certificates:
    """Make an authority of its own, and a certificate of this machine's; raises `Unavailable`."""
    made = Certificates(folder / "ca.crt", folder / "server.crt", folder / "server.key")
    new = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    authority_key = str(folder / "ca.key")
    _openssl(*new, "-subj", "/CN=tests", "-keyout", authority_key, "-out", str(made.authority))
    _openssl(
        *new,
        *("-subj", "/CN=localhost", "-addext", f"subjectAltName=DNS:localhost,IP:{HOST}"),
        *("-addext", "basicConstraints=critical,CA:FALSE"),
        *("-CA", str(made.authority), "-CAkey", authority_key),
        *("-keyout", str(made.key), "-out", str(made.certificate)),
    )
    return made


def _openssl(*arguments: str) -> None:
    try:
        done = subprocess.run(["openssl", *arguments], capture_output=True, text=True)
    except FileNotFoundError as error:
        raise Unavailable("this machine has no openssl") from error
    if done.returncode != 0:
        raise Unavailable(f"openssl failed: {done.stderr.strip()[-300:]}")
