"""The broker's one name, on which instances must agree, and each process's own way there."""

import socket


def find_broker_by(way):
    """Resolve the name to a way of this process's own."""
    resolve, (at, _, at_port) = socket.getaddrinfo, way.partition(":")

    def find(host, port, *rest, **more):
        if host == "broker":
            host, port = at, int(at_port)
        return resolve(host, port, *rest, **more)

    socket.getaddrinfo = find
