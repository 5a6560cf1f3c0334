"""Turns a folder of fetched programs into commands that run on this machine."""

import platform
from dataclasses import dataclass
from pathlib import Path

_LOADERS = {
    "x86_64": ("x86_64-linux-gnu", "ld-linux-x86-64.so.2"),
    "aarch64": ("aarch64-linux-gnu", "ld-linux-aarch64.so.1"),
}


@dataclass(frozen=True)
class Binaries:
    """The programs of one server: ``folder`` is what was unpacked, ``programs`` lies in it."""

    folder: Path
    programs: str

    def command(self, program: str) -> list[str]:
        """Return what runs a program, without its arguments.

        One that came with its own C library is started by that library's loader: a newer
        suite's programs would not start with this machine's.
        """
        path = str(self.folder / self.programs / program)
        loader = self._library_folders()[0] / self._loader()[1]
        if not loader.exists():
            return [path]
        return [str(loader), "--library-path", self._library_path(), path]

    def environment(self) -> dict[str, str]:
        """Return the variables its programs need."""
        has_loader = (self._library_folders()[0] / self._loader()[1]).exists()
        # Programs find nothing of ours in it otherwise; and with a loader of its own, a child
        # such as a shell would meet a library it cannot load.
        return {} if has_loader else {"LD_LIBRARY_PATH": self._library_path()}

    def _library_folders(self) -> list[Path]:
        triplet = self._loader()[0]
        usr = self.folder / "usr/lib"
        return [usr / triplet, self.folder / "lib" / triplet, usr]

    def _library_path(self) -> str:
        return ":".join(str(folder) for folder in self._library_folders())

    @staticmethod
    def _loader() -> tuple[str, str]:
        return _LOADERS.get(platform.machine(), (platform.machine(), "none"))
