"""Starts RabbitMQ, whose Erlang takes for granted that it was installed, and needs a helper."""

import shlex
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.servers.binaries import Binaries
from tests.servers.process import HOST, Server

_LEASH = Path(__file__).with_name("leash.py")

_ERL = """#!/bin/sh
export ROOTDIR={root} BINDIR={bin} EMU=beam PROGNAME=erl
exec {bin}/erlexec "$@"
"""
#: Erlang starts its own programs by path, from the folder it is told: what stands for them there
#: may start them by another loader.
_PROGRAM = """#!/bin/sh
exec {command} "$@"
"""
#: The helper that tells Erlang's nodes of each other's ports goes as its server does.
_START = """#!/bin/sh
{python} -I -S {leash} $$ 0 {bin}/epmd &
until {bin}/epmd -names >names 2>&1; do
    # it says nothing itself when it finds its port taken
    kill -0 $! 2>names || {{ echo "the helper's port is in use"; exit 1; }}
    sleep 0.02
done
exec {sbin}/rabbitmq-server
"""


#: How often a node is called that does not take the call.
_CALLS = 20


class RabbitServer(Server):
    """A RabbitMQ of one node, whose queues outlive a stop; its options are lines of its config."""

    def url(self) -> str:
        """Return its address as a broker."""
        return f"amqp://guest:guest@{HOST}:{self.port}//"

    def evaluate(self, erlang: str) -> str:
        """Let the node itself evaluate an expression of Erlang; return the value as Erlang's text.

        Raises ``RuntimeError`` if that fails.
        """
        cookie = (self.folder / ".erlang.cookie").read_text()
        call = self._erlang_programs().command("erl_call")
        for _ in range(_CALLS):
            done = subprocess.run(
                [*call, "-c", cookie, "-sname", self._node, "-e"],
                input=f"{erlang}.\n",
                env=self._environment(),
                capture_output=True,
                text=True,
            )
            # a node that has much to do may be too slow for it
            if "failed to connect" not in done.stderr:
                break
        said = done.stdout.strip()
        if done.returncode != 0 or not said.startswith("{ok, "):
            raise RuntimeError(f"{self.name}: {said} {done.stderr}".strip())
        return said.removeprefix("{ok, ").removesuffix("}")

    @property
    def _node(self) -> str:
        return f"test{self.port}@localhost"

    def _erlang_programs(self) -> Binaries:
        (folder,) = self.binaries.folder.glob("usr/lib/erlang/erts-*/bin")
        return Binaries(self.binaries.folder, str(folder.relative_to(self.binaries.folder)))

    def _prepare(self) -> None:
        erlang = self.binaries.folder / "usr/lib/erlang"
        (sbin,) = self.binaries.folder.glob("usr/lib/rabbitmq/lib/*/sbin")
        words = {"root": erlang, "bin": self._programs(), "sbin": sbin}
        self._script("erl", _ERL.format(**words))
        self._script("start", _START.format(python=sys.executable, leash=_LEASH, **words))
        (self.folder / "rabbitmq.conf").write_text("".join(f"{it}\n" for it in self._options))

    def _programs(self) -> Path:
        """Return the folder from which Erlang is to start its own programs."""
        binaries = self._erlang_programs()
        (erlexec,) = binaries.command("erlexec")[-1:]
        if binaries.command("erlexec") == [erlexec]:
            return Path(erlexec).parent
        ours = self.folder / "bin"
        ours.mkdir()
        for program in ("beam.smp", "epmd", "erl_child_setup", "erlexec", "inet_gethost"):
            command = shlex.join(binaries.command(program))
            self._script(f"bin/{program}", _PROGRAM.format(command=command))
        return ours

    def _script(self, name: str, text: str) -> None:
        script = self.folder / name
        script.write_text(text)
        script.chmod(0o755)

    def _command(self) -> list[str]:
        return [str(self.folder / "start")]

    def _environment(self) -> Mapping[str, str]:
        environment = super()._environment()
        # above those that servers are given here, each as far from the others' as the servers are
        helper, nodes = self.port + 17_000, self.port + 33_500
        return {
            **environment,
            "PATH": f"{self.folder}:{environment['PATH']}",
            "HOME": str(self.folder),
            "ERL_EPMD_ADDRESS": HOST,
            "ERL_EPMD_PORT": str(helper),
            "RABBITMQ_CONFIG_FILE": str(self.folder / "rabbitmq.conf"),
            "RABBITMQ_CONF_ENV_FILE": str(self.folder / "none"),
            "RABBITMQ_DIST_PORT": str(nodes),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self.folder / "plugins"),
            "RABBITMQ_GENERATED_CONFIG_DIR": str(self.folder / "generated"),
            "RABBITMQ_LOGS": "-",
            "RABBITMQ_LOG_BASE": str(self.folder / "logs"),
            "RABBITMQ_MNESIA_BASE": str(self.folder / "data"),
            "RABBITMQ_NODENAME": self._node,
            "RABBITMQ_NODE_IP_ADDRESS": HOST,
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_PID_FILE": str(self.folder / "pid"),
            # no programs that watch the machine: they are not started from the folder above
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-start_epmd false"
            " -os_mon start_memsup false start_cpu_sup false",
        }

    def _is_ready(self) -> bool:
        with socket.create_connection((HOST, self.port), timeout=1) as connection:
            connection.sendall(b"AMQP\x00\x00\x09\x01")
            return connection.recv(1) == b"\x01"
