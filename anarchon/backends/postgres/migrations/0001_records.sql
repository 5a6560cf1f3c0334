-- What a store keeps of each job, and what all calls share.
--
-- Migrations run with the store's schema as search_path, and the calls keep it. What they must
-- answer stands in anarchon/rules.py; what is said here is who holds which lock, and when.

-- One record a job. Whoever writes anything of a job holds this row locked FOR UPDATE, rows of
-- several jobs in the order of their names, and reads what it decides on in a later statement:
-- the snapshot of the statement that waited for the lock is older than the lock.
create table job (
    namespace text collate "C" not null,
    job text collate "C" not null,
    floor timestamptz not null,
    newest timestamptz not null,
    fence bigint not null default 0,
    primary key (namespace, job)
) with (fillfactor = 70);

-- When a schedule of a job was registered first and last.
create table edition (
    namespace text collate "C" not null,
    job text collate "C" not null,
    fingerprint text collate "C" not null,
    first_seen timestamptz not null,
    last_seen timestamptz not null,
    primary key (namespace, job, fingerprint)
) with (fillfactor = 70);

-- Claimed slots, and the marks of skipped ones. A run is busy until it expires: until its lease
-- lapses, or what is queued may be begun no more. The last columns are of tracked runs; who
-- began one, and when, stands in its attempt. No index may hold expires: each renewal would
-- then write to every index of the table, and leave a dead entry in it.
create table run (
    namespace text collate "C" not null,
    job text collate "C" not null,
    slot timestamptz not null,
    state text not null,
    lease bigint not null,
    overlap text not null,
    max_attempts bigint not null,
    begins_as text not null,
    attempt int not null,
    lapses int not null,
    token text,
    expires timestamptz,
    instance text not null,
    fence bigint not null,
    started timestamptz not null,
    spent text[] not null default '{}',
    start_within bigint,
    deadline timestamptz,
    retry bigint not null default 0,
    nonce text,
    holder text,
    primary key (namespace, job, slot)
) with (fillfactor = 70);

create index run_unfinished on run (namespace, job, slot)
    where state in ('claimed', 'queued', 'running');

create table attempt (
    namespace text collate "C" not null,
    job text collate "C" not null,
    slot timestamptz not null,
    attempt int not null,
    state text not null,
    instance text not null,
    fence bigint not null,
    started timestamptz not null,
    ended timestamptz,
    detail text,
    worker text,
    message text,
    begun timestamptz,
    primary key (namespace, job, slot, attempt)
) with (fillfactor = 85);

-- Whole milliseconds, as slots are. Never now(), which stands still in a transaction.
create function store_time() returns timestamptz language sql volatile as
$$ select date_trunc('milliseconds', clock_timestamp()) $$;

create function moment_of(millis bigint) returns timestamptz language sql stable as
$$ select timestamptz 'epoch' + millis * interval '1 millisecond' $$;

create function millis_of(moment timestamptz) returns bigint language sql stable as
$$ select floor(extract(epoch from moment) * 1000)::bigint $$;

create function micros(duration bigint) returns interval language sql immutable as
$$ select duration * interval '1 microsecond' $$;

-- Refuse a session in which no promise can be kept. AN001: one snapshot for the whole
-- transaction, which would be older than the locks. AN002: a standby.
create function check_session() returns void language plpgsql stable as $$
begin
    if pg_is_in_recovery() then
        raise exception 'this server is a standby' using errcode = 'AN002';
    end if;
    if current_setting('transaction_isolation') <> 'read committed' then
        raise exception 'transactions are not READ COMMITTED' using errcode = 'AN001';
    end if;
end $$;

-- Lock the records there are of these jobs, for a call that will write. One after the other, so
-- that no plan can change the order.
create function lock_jobs(p_namespace text, p_jobs text[]) returns void language plpgsql as $$
declare
    v_job text;
begin
    -- what was acknowledged must outlive a crash; remote_apply and the like are left alone
    if current_setting('synchronous_commit') = 'off' then
        perform set_config('synchronous_commit', 'on', true);
    end if;
    for v_job in select distinct u.name collate "C" from unnest(p_jobs) as u (name) order by 1 loop
        perform from job j where j.namespace = p_namespace and j.job = v_job for update;
    end loop;
end $$;

-- Make the records that are missing, and say of which jobs. The call that made one sets its
-- floor and newest slot to the time that it reads under the locks, and nobody else sees it before.
create function make_records(p_namespace text, p_jobs text[]) returns setof text
language plpgsql as $$
begin
    return query insert into job as j (namespace, job, floor, newest)
    select p_namespace, u.name, timestamptz 'infinity', timestamptz 'infinity'
    from unnest(p_jobs) as u (name)
    order by u.name collate "C"
    on conflict do nothing
    returning j.job;
end $$;

create function close_attempt(
    p_namespace text, p_job text, p_slot timestamptz, p_attempt int, p_state text,
    p_time timestamptz, p_detail text default null
) returns void language plpgsql as $$
begin
    update attempt h set state = p_state, ended = p_time, detail = p_detail
    where h.namespace = p_namespace and h.job = p_job and h.slot = p_slot
        and h.attempt = p_attempt;
end $$;
