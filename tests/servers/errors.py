"""Why a test may have to do without its server."""


class Unavailable(Exception):
    """A server cannot be had on this machine; the message says why."""


class StartFailed(Unavailable):
    """A server was fetched and did not start; the message ends with its log."""
