-- The other calls.
--
-- Arguments and answers as those of claim. renew, finish and release: no run twice in one call;
-- active: no job twice.

create function tell_time() returns timestamptz language plpgsql as $$
begin
    perform check_session();
    return store_time();
end $$;

create function renew(
    p_namespace text, p_jobs text[], p_slots bigint[], p_tokens text[]
) returns table (ord int, clock timestamptz, answer boolean) language plpgsql as $$
declare
    v_time timestamptz;
begin
    perform check_session();
    perform lock_jobs(p_namespace, p_jobs);
    v_time := store_time();
    return query
    with renewed as (
        update run r set expires = v_time + micros(r.lease)
        from unnest(p_jobs, p_slots, p_tokens) with ordinality as a (job, slot, token, ord)
        where r.namespace = p_namespace and r.job = a.job and r.slot = moment_of(a.slot)
            and r.token = a.token and r.expires > v_time and r.state in ('claimed', 'running')
        returning a.ord
    )
    select o.ord, v_time, o.ord in (select u.ord from renewed u)
    from generate_series(1, cardinality(p_jobs)) as o (ord);
end $$;

create function finish(
    p_namespace text, p_jobs text[], p_slots bigint[], p_tokens text[], p_states text[],
    p_details text[]
) returns table (ord int, clock timestamptz, answer boolean) language plpgsql as $$
declare
    v_time timestamptz;
begin
    perform check_session();
    perform lock_jobs(p_namespace, p_jobs);
    v_time := store_time();
    update attempt h set state = a.state, ended = v_time, detail = a.detail
    from unnest(p_jobs, p_slots, p_tokens, p_states, p_details)
        as a (job, slot, token, state, detail)
    join run r on r.namespace = p_namespace and r.job = a.job and r.slot = moment_of(a.slot)
        and r.token = a.token and r.state in ('claimed', 'running')
    where (h.namespace, h.job, h.slot, h.attempt) = (r.namespace, r.job, r.slot, r.attempt);
    update run r set state = a.state, expires = null
    from unnest(p_jobs, p_slots, p_tokens, p_states) as a (job, slot, token, state)
    where r.namespace = p_namespace and r.job = a.job and r.slot = moment_of(a.slot)
        and r.token = a.token and r.state in ('claimed', 'running');
    -- a finished run keeps the token that did it, so a repeat hears the same
    return query
    select a.ord::int, v_time, coalesce(r.token = a.token, false)
    from unnest(p_jobs, p_slots, p_tokens) with ordinality as a (job, slot, token, ord)
    left join run r on r.namespace = p_namespace and r.job = a.job and r.slot = moment_of(a.slot);
end $$;

create function release(
    p_namespace text, p_jobs text[], p_slots bigint[], p_tokens text[]
) returns table (ord int, clock timestamptz, answer boolean) language plpgsql as $$
declare
    v_time timestamptz;
begin
    perform check_session();
    perform lock_jobs(p_namespace, p_jobs);
    v_time := store_time();
    update attempt h set state = 'interrupted', ended = v_time
    from unnest(p_jobs, p_slots, p_tokens) as a (job, slot, token)
    join run r on r.namespace = p_namespace and r.job = a.job and r.slot = moment_of(a.slot)
        and r.token = a.token and r.state in ('claimed', 'running')
    where (h.namespace, h.job, h.slot, h.attempt) = (r.namespace, r.job, r.slot, r.attempt);
    update run r set token = null, expires = null, spent = r.spent || a.token,
        state = case when r.max_attempts = 1 then 'interrupted' else r.state end
    from unnest(p_jobs, p_slots, p_tokens) as a (job, slot, token)
    where r.namespace = p_namespace and r.job = a.job and r.slot = moment_of(a.slot)
        and r.token = a.token and r.state in ('claimed', 'running');
    return query
    select a.ord::int, v_time, coalesce(a.token = any (r.spent), false)
    from unnest(p_jobs, p_slots, p_tokens) with ordinality as a (job, slot, token, ord)
    left join run r on r.namespace = p_namespace and r.job = a.job and r.slot = moment_of(a.slot);
end $$;

-- others: [[fingerprint, last seen], ...]; unfinished: [[slot, attempt, busy, holder], ...] by
-- slot; moments in milliseconds.
create function active(
    p_namespace text, p_jobs text[], p_fingerprints text[], p_memory bigint
) returns table (
    ord int, clock timestamptz, first_seen timestamptz, others jsonb, unfinished jsonb
) language plpgsql as $$
declare
    v_time timestamptz;
begin
    perform check_session();
    insert into job (namespace, job, floor)
    select p_namespace, name, store_time() from unnest(p_jobs) as name order by name collate "C"
    on conflict do nothing;
    perform lock_jobs(p_namespace, p_jobs);
    v_time := store_time();
    delete from edition e using unnest(p_jobs, p_fingerprints) as a (job, fingerprint)
    where e.namespace = p_namespace and e.job = a.job and e.fingerprint <> a.fingerprint
        and v_time - e.last_seen >= micros(p_memory);
    insert into edition (namespace, job, fingerprint, first_seen, last_seen)
    select p_namespace, a.job, a.fingerprint, v_time, v_time
    from unnest(p_jobs, p_fingerprints) as a (job, fingerprint)
    on conflict (namespace, job, fingerprint) do update set last_seen = v_time;
    return query
    select a.ord::int, v_time, e.first_seen, o.known, u.runs
    from unnest(p_jobs, p_fingerprints) with ordinality as a (job, fingerprint, ord)
    join edition e on e.namespace = p_namespace and e.job = a.job
        and e.fingerprint = a.fingerprint
    cross join lateral (
        select jsonb_agg(
            jsonb_build_array(x.fingerprint, millis_of(x.last_seen)) order by x.fingerprint
        ) as known
        from edition x
        where x.namespace = p_namespace and x.job = a.job and x.fingerprint <> a.fingerprint
    ) as o
    cross join lateral (
        select jsonb_agg(
            jsonb_build_array(
                millis_of(r.slot), r.attempt, coalesce(r.expires > v_time, false), r.instance
            ) order by r.slot
        ) as runs
        from run r
        where r.namespace = p_namespace and r.job = a.job and r.state in ('claimed', 'running')
    ) as u;
end $$;

-- Newest first; before them one row with nothing but the time.
create function history(p_namespace text, p_jobs text[], p_limit bigint) returns table (
    clock timestamptz, job text, slot timestamptz, attempt int, state text, instance text,
    fence bigint, started timestamptz, ended timestamptz, detail text
) language plpgsql as $$
begin
    perform check_session();
    clock := store_time();
    return next;
    return query
    select clock, h.job, h.slot, h.attempt, h.state, h.instance, h.fence, h.started, h.ended,
        h.detail
    from (select distinct u.name from unnest(p_jobs) as u (name)) as a
    cross join lateral (
        select x.* from attempt x
        where x.namespace = p_namespace and x.job = a.name
        order by x.slot desc, x.attempt desc limit p_limit
    ) as h
    order by h.slot desc, h.attempt desc, h.job desc limit p_limit;
end $$;

-- Floor and deletion in one step, under the lock of the record: a claim that may win reads the
-- floor under the same lock.
create function prune(
    p_namespace text, p_jobs text[], p_keeps bigint[], p_spares bigint[], p_retention bigint
) returns table (ord int, clock timestamptz, answer int) language plpgsql as $$
declare
    v_old text[];
    v_up_to timestamptz;
    v_newest timestamptz;
begin
    perform check_session();
    select array_agg(distinct r.job) into v_old from run r
    where r.namespace = p_namespace and r.state in ('claimed', 'running')
        and store_time() - r.slot > micros(p_retention);
    perform lock_jobs(p_namespace, p_jobs || v_old);
    clock := store_time();
    for v_ord in 1 .. cardinality(p_jobs) loop
        v_up_to := least(
            greatest(
                (
                    select h.slot from attempt h
                    where h.namespace = p_namespace and h.job = p_jobs[v_ord]
                    order by h.slot desc offset p_keeps[v_ord] limit 1
                ),
                clock - micros(p_retention)
            ),
            clock - micros(p_spares[v_ord])
        );
        with gone as (
            delete from run r
            where r.namespace = p_namespace and r.job = p_jobs[v_ord] and r.slot <= v_up_to
                and r.state not in ('claimed', 'running')
            returning r.slot
        ), past as (
            delete from attempt h using gone g
            where h.namespace = p_namespace and h.job = p_jobs[v_ord] and h.slot = g.slot
            returning h.slot
        )
        select max(g.slot), (select count(*) from past) into v_newest, answer from gone g;
        update job j set floor = v_newest
        where j.namespace = p_namespace and j.job = p_jobs[v_ord] and j.floor < v_newest;
        ord := v_ord;
        return next;
    end loop;
    perform end_runs(p_namespace, u.name, array(
        select r.slot from run r
        where r.namespace = p_namespace and r.job = u.name and r.state in ('claimed', 'running')
            and (r.expires is null or r.expires <= clock)
            and clock - r.slot > micros(p_retention)
    ), 'lost', clock) from unnest(v_old) as u (name);
end $$;

-- Each call waits two seconds for a lock at most, well within the deadline of who asks. Its
-- plan is made once, whatever the number of questions and the size the tables had then: by the
-- indexes, one row after the other.
do $$
declare
    v_call regprocedure;
begin
    for v_call in
        select p.oid from pg_proc p
        where p.pronamespace = current_schema::regnamespace and p.proname in (
            'tell_time', 'claim', 'renew', 'finish', 'release', 'active', 'history', 'prune')
    loop
        execute format('alter function %s set search_path from current', v_call);
        execute format('alter function %s set lock_timeout = ''2s''', v_call);
        execute format('alter function %s set plan_cache_mode = force_generic_plan', v_call);
        execute format('alter function %s set enable_seqscan = off', v_call);
        execute format('alter function %s set enable_hashjoin = off', v_call);
        execute format('alter function %s set enable_mergejoin = off', v_call);
        execute format('alter function %s set jit = off', v_call);
    end loop;
end $$;
