"""The tables, as the statements that make them.

All names begin with ``anarchon_``, so that a database may be shared with other tables. Times
and lengths are whole milliseconds. These are the first migration of whoever uses them: an edit
changes nothing where it has run once.
"""

from __future__ import annotations

TABLES: tuple[str, ...] = (
    """
    create table anarchon_job (
        id integer primary key,
        namespace text not null,
        name text not null,
        floor integer not null,
        newest integer not null,
        fence integer not null,
        unique (namespace, name)
    )
    """,
    """
    create table anarchon_fingerprint (
        job integer not null,
        fingerprint text not null,
        first_seen integer not null,
        last_seen integer not null,
        primary key (job, fingerprint)
    ) without rowid
    """,
    # token: null once it was released; expires: null without a lease; start_within: null
    # for a run that is not tracked, as is all that comes last;
    # spent: the tokens that were released or lapsed, as a JSON array
    """
    create table anarchon_run (
        job integer not null,
        slot integer not null,
        state text not null,
        lease integer not null,
        overlap text not null,
        max_attempts integer not null,
        begins_as text not null,
        start_within integer,
        attempt integer not null,
        lapses integer not null,
        token text,
        expires integer,
        instance text not null,
        fence integer not null,
        started integer not null,
        spent text not null,
        deadline integer,
        retry integer not null,
        nonce text,
        holder text,
        message text,
        begun integer,
        primary key (job, slot)
    ) without rowid
    """,
    # each claim asks for what has not ended, among all that has
    """
    create index anarchon_unfinished on anarchon_run (job, slot)
    where state in ('claimed', 'queued', 'running')
    """,
    # with a rowid: pruning counts attempts, and their details would make that slow
    """
    create table anarchon_attempt (
        job integer not null,
        slot integer not null,
        attempt integer not null,
        state text not null,
        instance text not null,
        fence integer not null,
        started integer not null,
        ended integer,
        detail text,
        worker text,
        message text,
        begun integer,
        primary key (job, slot, attempt)
    )
    """,
)
