"""Becomes a server that dies with the process that started it.

Run by path in a fresh interpreter: ``leash.py PARENT USER COMMAND...``; imports nothing of ours.
The signal is asked for after the change of user, which would clear it, and survives ``exec``.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Drop to the user if one is given, ask to be killed with the parent, become the command."""
    parent, user, command = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
    if user:
        os.setgroups([])
        os.setgid(user)
        os.setuid(user)
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit("the process that wanted this server is gone")
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
