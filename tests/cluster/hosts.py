"""Several hosts on one machine: network namespaces, a router between them, packets that get lost.

Every address lies inside a namespace made here. The store itself stays where it is: a relay
of ours listens in a namespace of its own, and connects from outside of all of them.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import socket
import subprocess
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from tests.cluster.network import Address, Proxy
from tests.cluster.ways import Mode, modes_of
from tests.servers import Unavailable, ask_or_skip

_NETWORK_ONLY = 0x40000000  # CLONE_NEWNET
_LIBC = ctypes.CDLL(None, use_errno=True)


class HostWay:
    """The way of one host to the store: by its cable, the router, and a relay at the far end."""

    def __init__(self, hosts: Hosts, number: int, proxy: Proxy) -> None:
        self._router = hosts.router
        self._address = _address_of(number)
        self._cable = f"h{number}"
        self._proxy = proxy
        self._undo: list[str] = []
        self.enter: tuple[str, ...] = ("nsenter", f"--net=/run/netns/{hosts.name_of(number)}")
        self.host, self.port = proxy.host, proxy.port

    def modes(self) -> Mapping[str, Mode]:
        drop_requests = f"rule {{}} from {self._address} blackhole"
        drop_replies = f"route {{}} blackhole {self._address}/32"
        proxied = modes_of(self._proxy)
        return {
            **{name: proxied[name] for name in ("connections cut", "slow")},
            "requests dropped": lambda chance: self._harm(drop_requests),
            # the store does what it is asked, and nobody hears of it
            "replies dropped": lambda chance: self._harm(drop_replies),
            "packets dropped": lambda chance: self._harm(drop_requests, drop_replies),
            "link down": lambda chance: self._pull_the_cable(),
        }

    def heal(self) -> None:
        while self._undo:
            _ip(f"-n {self._router} {self._undo.pop()}")
        self._proxy.heal()

    def _harm(self, *rules: str) -> None:
        for rule in rules:
            _ip(f"-n {self._router} {rule.format('add')}")
            self._undo.append(rule.format("del"))

    def _pull_the_cable(self) -> None:
        _ip(f"-n {self._router} link set {self._cable} down")
        self._undo.append(f"link set {self._cable} up")


class Hosts:
    """Hosts 1 to ``count``, each in a network of its own, and one in which relays listen."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._prefix = f"anarchon-{os.getpid()}"
        self.router = f"{self._prefix}-router"
        self._left = ExitStack()

    def __enter__(self) -> Self:
        """Make them; skips the test, or fails it, where this machine does not let us."""
        self._left = ask_or_skip("network namespaces", self._make)
        return self

    def __exit__(self, *_: object) -> None:
        self._left.close()

    def name_of(self, number: int) -> str:
        """Return the name of a host's namespace; 0 is that of the relays."""
        return f"{self._prefix}-host{number}"

    def way(self, number: int, target: Address) -> HostWay:
        """Return the way of a host to a server outside."""
        return HostWay(self, number, self.relay(target))

    def relay(self, target: Address) -> Proxy:
        """Let a server outside be reached by every host."""
        proxy = Proxy(target, listener=_listener_in(self.name_of(0))).start()
        self._left.callback(proxy.stop)
        return proxy

    def _make(self) -> ExitStack:
        """Make all there is, and return what removes it; raises `Unavailable`."""
        if os.geteuid() != 0:
            raise Unavailable("only root makes them")
        for program, package in (("ip", "iproute2"), ("nsenter", "util-linux")):
            if shutil.which(program) is None:
                raise Unavailable(f"there is no {program}, which the package {package} brings")
        _sweep()
        try:
            with ExitStack() as stack:
                self._connect(stack)
                return stack.pop_all()
        except subprocess.CalledProcessError as error:
            raise Unavailable(f"{' '.join(error.cmd)}: {error.stderr.decode().strip()}") from None

    def _connect(self, stack: ExitStack) -> None:
        _make_namespace(self.router, stack)
        for number in range(self._count + 1):
            name, cable, end = self.name_of(number), f"h{number}", "eth0"
            _make_namespace(name, stack)
            _ip(f"link add {cable} netns {self.router} type veth peer name {end} netns {name}")
            _ip(f"-n {self.router} addr add {_gateway_of(number)}/24 dev {cable}")
            _ip(f"-n {name} addr add {_address_of(number)}/24 dev {end}")
            _ip(f"-n {self.router} link set {cable} up")
            _ip(f"-n {name} link set {end} up")
            _ip(f"-n {name} route add default via {_gateway_of(number)}")
        forward = "/proc/sys/net/ipv4/ip_forward"
        _run(["nsenter", f"--net=/run/netns/{self.router}", "sh", "-c", f"echo 1 > {forward}"])


def _sweep() -> None:
    """Remove the namespaces of processes that were killed before they could."""
    for name in Path("/run/netns").glob("anarchon-*-*"):
        if not Path("/proc", name.name.split("-")[1]).exists():
            _ip(f"netns del {name.name}")


def _address_of(number: int) -> str:
    return f"10.77.{number}.2"


def _gateway_of(number: int) -> str:
    return f"10.77.{number}.1"


def _make_namespace(name: str, stack: ExitStack) -> None:
    _ip(f"netns add {name}")
    stack.callback(_ip, f"netns del {name}")
    _ip(f"-n {name} link set lo up")


def _listener_in(namespace: str) -> socket.socket:
    """Return a socket that stays in its namespace, whoever uses it."""

    def make() -> socket.socket:
        with Path("/run/netns", namespace).open() as file:
            if _LIBC.setns(file.fileno(), _NETWORK_ONLY) != 0:
                raise OSError(ctypes.get_errno(), f"no way into {namespace}")
        listener = socket.socket()
        listener.bind((_address_of(0), 0))
        return listener

    # a thread's network is its own, and this thread ends here
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(make).result()


def _ip(arguments: str) -> None:
    _run(["ip", *arguments.split()])


def _run(command: list[str]) -> None:
    subprocess.run(command, check=True, capture_output=True)
