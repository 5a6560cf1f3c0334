-- The other calls.
--
-- Arguments and answers as those of claim.

create function tell_time() returns timestamptz language plpgsql as $$
begin
    perform check_session();
    return store_time();
end $$;

-- The mark that a run waits in the broker: the publisher's without a nonce, or a retry's.
create function mark(
    p_namespace text, p_job text, p_slot timestamptz, p_token text, p_nonce text, p_retry bigint,
    p_delay bigint, p_time timestamptz
) returns boolean language plpgsql as $$
declare
    v_attempt int;
begin
    if p_nonce is null then
        update run r set state = 'queued', expires = r.deadline
        where r.namespace = p_namespace and r.job = p_job and r.slot = p_slot
            and r.token = p_token and r.state = 'claimed' and r.start_within is not null
        returning r.attempt into v_attempt;
    else
        update run r set state = 'queued', retry = p_retry, nonce = null, holder = null,
            expires = v.deadline, deadline = v.deadline
        from (
            select date_trunc(
                'milliseconds', p_time + micros(p_delay) + micros(x.start_within)
            ) as deadline
            from run x where x.namespace = p_namespace and x.job = p_job and x.slot = p_slot
        ) as v
        where r.namespace = p_namespace and r.job = p_job and r.slot = p_slot
            and r.token = p_token and r.state = 'running' and r.nonce = p_nonce
            and r.retry < p_retry
        returning r.attempt into v_attempt;
    end if;
    if v_attempt is null then
        return false;
    end if;
    update attempt h set state = 'queued', worker = case when p_nonce is null then h.worker end
    where h.namespace = p_namespace and h.job = p_job and h.slot = p_slot
        and h.attempt = v_attempt;
    return true;
end $$;

-- Without p_waits a heartbeat, else the mark that there will be none.
create function renew(
    p_namespace text, p_jobs text[], p_slots bigint[], p_tokens text[], p_holders text[],
    p_waits boolean[], p_nonces text[], p_retries bigint[], p_delays bigint[]
) returns table (ord int, clock timestamptz, answer boolean) language plpgsql as $$
begin
    perform check_session();
    perform lock_jobs(p_namespace, p_jobs);
    clock := store_time();
    for i in 1 .. cardinality(p_jobs) loop
        if p_waits[i] then
            answer := mark(
                p_namespace, p_jobs[i], moment_of(p_slots[i]), p_tokens[i], p_nonces[i],
                p_retries[i], p_delays[i], clock);
        else
            update run r set expires = clock + micros(r.lease)
            where r.namespace = p_namespace and r.job = p_jobs[i]
                and r.slot = moment_of(p_slots[i]) and r.token = p_tokens[i]
                and r.holder is not distinct from p_holders[i] and r.expires > clock
                and r.state in ('claimed', 'running');
            answer := found;
        end if;
        ord := i;
        return next;
    end loop;
end $$;

create function begin(
    p_namespace text, p_jobs text[], p_slots bigint[], p_tokens text[], p_retries bigint[],
    p_nonces text[], p_holders text[], p_messages text[]
) returns table (ord int, clock timestamptz, answer boolean) language plpgsql as $$
declare
    v_attempt int;
begin
    perform check_session();
    perform lock_jobs(p_namespace, p_jobs);
    clock := store_time();
    for i in 1 .. cardinality(p_jobs) loop
        update run r set state = 'running', expires = clock + micros(r.lease), deadline = null,
            retry = p_retries[i], nonce = p_nonces[i], holder = p_holders[i]
        where r.namespace = p_namespace and r.job = p_jobs[i] and r.slot = moment_of(p_slots[i])
            and r.token = p_tokens[i] and r.state in ('claimed', 'queued', 'running')
            and r.start_within is not null
            and (
                r.nonce = p_nonces[i]
                or (
                    (r.deadline is null or r.deadline > clock)
                    and (
                        p_retries[i] > r.retry
                        or (p_retries[i] = r.retry and r.state in ('claimed', 'queued'))
                    )
                )
            )
        returning r.attempt into v_attempt;
        answer := found;
        if found then
            update attempt h set state = 'running', worker = p_holders[i],
                message = p_messages[i], begun = coalesce(h.begun, clock)
            where h.namespace = p_namespace and h.job = p_jobs[i]
                and h.slot = moment_of(p_slots[i]) and h.attempt = v_attempt;
        end if;
        ord := i;
        return next;
    end loop;
end $$;

create function finish(
    p_namespace text, p_jobs text[], p_slots bigint[], p_tokens text[], p_states text[],
    p_details text[], p_nonces text[]
) returns table (ord int, clock timestamptz, answer boolean) language plpgsql as $$
declare
    v_attempt int;
begin
    perform check_session();
    perform lock_jobs(p_namespace, p_jobs);
    clock := store_time();
    for i in 1 .. cardinality(p_jobs) loop
        update run r set state = p_states[i], expires = null
        where r.namespace = p_namespace and r.job = p_jobs[i] and r.slot = moment_of(p_slots[i])
            and r.token = p_tokens[i] and r.nonce is not distinct from p_nonces[i]
            and r.state in ('claimed', 'running')
        returning r.attempt into v_attempt;
        answer := found;
        if found then
            perform close_attempt(
                p_namespace, p_jobs[i], moment_of(p_slots[i]), v_attempt, p_states[i], clock,
                p_details[i]);
        else
            -- a finished run keeps the token that did it, so a repeat hears the same
            perform from run r
            where r.namespace = p_namespace and r.job = p_jobs[i]
                and r.slot = moment_of(p_slots[i]) and r.token = p_tokens[i]
                and r.nonce is not distinct from p_nonces[i] and r.state <> 'queued';
            answer := found;
        end if;
        ord := i;
        return next;
    end loop;
end $$;

create function release(
    p_namespace text, p_jobs text[], p_slots bigint[], p_tokens text[], p_begun boolean[]
) returns table (ord int, clock timestamptz, answer boolean) language plpgsql as $$
declare
    v_attempt int;
begin
    perform check_session();
    perform lock_jobs(p_namespace, p_jobs);
    clock := store_time();
    for i in 1 .. cardinality(p_jobs) loop
        update run r set token = null, expires = null, spent = r.spent || p_tokens[i],
            state = case when p_begun[i] and r.max_attempts = 1 then 'interrupted' else r.state end
        where r.namespace = p_namespace and r.job = p_jobs[i] and r.slot = moment_of(p_slots[i])
            and r.token = p_tokens[i] and r.nonce is null and r.state in ('claimed', 'running')
        returning r.attempt into v_attempt;
        answer := found;
        if found then
            perform close_attempt(
                p_namespace, p_jobs[i], moment_of(p_slots[i]), v_attempt, 'interrupted', clock);
        else
            perform from run r
            where r.namespace = p_namespace and r.job = p_jobs[i]
                and r.slot = moment_of(p_slots[i]) and p_tokens[i] = any (r.spent);
            answer := found;
        end if;
        ord := i;
        return next;
    end loop;
end $$;

-- others: [[fingerprint, last seen], ...]; unfinished: [[slot, attempt, busy, holder], ...] by
-- slot; moments in milliseconds.
create function active(
    p_namespace text, p_jobs text[], p_fingerprints text[], p_memory bigint
) returns table (
    ord int, clock timestamptz, first_seen timestamptz, newest timestamptz, others jsonb,
    unfinished jsonb
) language plpgsql as $$
declare
    v_made text[];
    v_job text;
begin
    perform check_session();
    v_made := array(select make_records(p_namespace, p_jobs));
    perform lock_jobs(p_namespace, p_jobs);
    clock := store_time();
    foreach v_job in array v_made loop
        update job j set floor = clock, newest = clock
        where j.namespace = p_namespace and j.job = v_job;
    end loop;
    for i in 1 .. cardinality(p_jobs) loop
        delete from edition e
        where e.namespace = p_namespace and e.job = p_jobs[i]
            and e.fingerprint <> p_fingerprints[i] and clock - e.last_seen >= micros(p_memory);
        insert into edition as e (namespace, job, fingerprint, first_seen, last_seen)
        values (p_namespace, p_jobs[i], p_fingerprints[i], clock, clock)
        on conflict (namespace, job, fingerprint) do update set last_seen = clock
        returning e.first_seen into first_seen;
        select j.newest into newest from job j
        where j.namespace = p_namespace and j.job = p_jobs[i];
        select jsonb_agg(
            jsonb_build_array(e.fingerprint, millis_of(e.last_seen)) order by e.fingerprint
        ) into others
        from edition e
        where e.namespace = p_namespace and e.job = p_jobs[i]
            and e.fingerprint <> p_fingerprints[i];
        select jsonb_agg(
            jsonb_build_array(
                millis_of(r.slot), r.attempt, coalesce(r.expires > clock, false), r.instance
            ) order by r.slot
        ) into unfinished
        from run r
        where r.namespace = p_namespace and r.job = p_jobs[i]
            and r.state in ('claimed', 'queued', 'running');
        ord := i;
        return next;
    end loop;
end $$;

-- Newest first; before them one row with nothing but the time.
create function history(p_namespace text, p_jobs text[], p_limit bigint) returns table (
    clock timestamptz, job text, slot timestamptz, attempt int, state text, instance text,
    fence bigint, started timestamptz, ended timestamptz, detail text, worker text, message text,
    begun timestamptz
) language plpgsql as $$
begin
    perform check_session();
    clock := store_time();
    return next;
    return query
    select clock, h.job, h.slot, h.attempt, h.state, h.instance, h.fence, h.started, h.ended,
        h.detail, h.worker, h.message, h.begun
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
    where r.namespace = p_namespace and r.state in ('claimed', 'queued', 'running')
        and store_time() - r.slot > micros(p_retention);
    perform lock_jobs(p_namespace, p_jobs || v_old);
    clock := store_time();
    for i in 1 .. cardinality(p_jobs) loop
        v_up_to := least(
            greatest(
                (
                    select h.slot from attempt h
                    where h.namespace = p_namespace and h.job = p_jobs[i]
                    order by h.slot desc offset p_keeps[i] limit 1
                ),
                clock - micros(p_retention)
            ),
            clock - micros(p_spares[i])
        );
        with gone as (
            delete from run r
            where r.namespace = p_namespace and r.job = p_jobs[i] and r.slot <= v_up_to
                and r.state not in ('claimed', 'queued', 'running')
            returning r.slot
        ), past as (
            delete from attempt h
            where h.namespace = p_namespace and h.job = p_jobs[i]
                and h.slot = any (array(select g.slot from gone g))
            returning h.slot
        )
        select max(g.slot), (select count(*) from past) into v_newest, answer from gone g;
        update job j set floor = v_newest
        where j.namespace = p_namespace and j.job = p_jobs[i] and j.floor < v_newest;
        ord := i;
        return next;
    end loop;
    perform end_runs(p_namespace, u.name, array(
        select r.slot from run r
        where r.namespace = p_namespace and r.job = u.name
            and r.state in ('claimed', 'queued', 'running')
            and (r.expires is null or r.expires <= clock)
            and clock - r.slot > micros(p_retention)
    ), 'lost', clock) from unnest(v_old) as u (name);
end $$;

-- Each call waits two seconds for a lock at most, well within the deadline of who asks. All its
-- statements find their rows by an index: plans are kept by a session, and one made while the
-- tables were empty would otherwise read all of them for ever after.
do $$
declare
    v_call regprocedure;
begin
    for v_call in
        select p.oid from pg_proc p join pg_namespace n on n.oid = p.pronamespace
        where n.nspname = current_schema and p.proname in (
            'tell_time', 'claim', 'renew', 'begin', 'finish', 'release', 'active', 'history',
            'prune')
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
