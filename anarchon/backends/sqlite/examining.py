"""A look at the file that makes no file, and changes none."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from urllib.parse import quote

from anarchon.backends.sqlite.database import translating
from anarchon.backends.sqlite.schema import is_current
from anarchon.errors import StoreRefused
from anarchon.standing import Standing

_SERVER = f"SQLite {sqlite3.sqlite_version}"


def examine(path: str, label: str) -> Standing:
    """Say how the file stands; raises ``StoreError``."""
    folder = os.path.dirname(path)
    if not os.path.isdir(folder):
        raise StoreRefused(label, f"the folder {folder} does not exist")
    if os.path.isdir(path):
        raise StoreRefused(label, "it is a folder, not a file")
    # the write-ahead log is made in the folder each time
    for place in (folder, path):
        if os.path.exists(place) and not os.access(place, os.R_OK | os.W_OK):
            raise StoreRefused(label, f"{place} may not be read and written by this user")
    if not os.path.exists(path):
        return Standing(_SERVER, False)
    with (
        translating(path, label),
        closing(sqlite3.connect(f"file:{quote(path)}?mode=ro", uri=True)) as connection,
    ):
        return Standing(_SERVER, is_current(connection, label))
