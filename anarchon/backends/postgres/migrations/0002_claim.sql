-- Claims.
--
-- What is to be done about a claim, the answer to it, and what was asked.
create type judged as (
    ord int, clock timestamptz, verdict text,
    outcome text, attempt int, fence bigint, lease bigint, holder text, blocker timestamptz,
    job text, slot timestamptz, token text, instance text, asked_lease bigint, overlap text,
    max_attempts bigint, begin_as text, others bigint
);

-- The rule for claims, as one statement. Must stay so simple that it is inlined where it is
-- used, or it would be planned anew by each call: no SET, no second statement, not volatile.
create function judge(
    p_namespace text, p_time timestamptz, p_open boolean[], p_jobs text[], p_slots bigint[],
    p_tokens text[], p_modes text[], p_instances text[], p_leases bigint[], p_overlaps text[],
    p_max_attempts bigint[], p_begin_as text[], p_within bigint[]
) returns setof judged language sql stable as $$
    select v.ord, p_time, v.verdict,
        case
            when v.verdict in ('hold', 'take over', 'start') then 'won'
            when v.verdict = 'give up' then 'done'
            when v.verdict = 'skip' then 'overlap'
            else v.verdict
        end,
        case v.verdict
            when 'hold' then v.run_attempt
            when 'running' then v.run_attempt
            when 'take over' then v.run_attempt + 1
            when 'start' then 1
            else 0
        end,
        case
            when v.verdict in ('hold', 'running') then v.run_fence
            when v.verdict in ('take over', 'start') then greatest(v.job_fence + 1, millis_of(p_time))
            else 0
        end,
        case
            when v.verdict in ('hold', 'running', 'take over') then v.run_lease
            when v.verdict = 'start' then v.lease
        end,
        case
            when v.verdict in ('hold', 'running') then v.run_instance
            when v.verdict in ('take over', 'start') then v.instance
            when v.verdict in ('skip', 'overlap') then v.busy_instance
        end,
        case when v.verdict in ('skip', 'overlap') then v.busy_slot end,
        v.job, v.slot, v.token, v.instance, v.lease, v.overlap, v.max_attempts, v.begin_as,
        v.others
    from (
        select a.*, j.fence as job_fence, r.attempt as run_attempt, r.fence as run_fence,
            r.lease as run_lease, r.instance as run_instance, b.slot as busy_slot,
            b.instance as busy_instance, b.others,
            case
                when r.state <> 'skipped' then case
                    when r.state not in ('claimed', 'running') then 'done'
                    when r.expires > p_time and r.token = a.token then 'hold'
                    when r.expires > p_time or a.mode <> 'takeover' or a.token = any (r.spent)
                        then 'running'
                    when r.token is not null and r.lapses + 1 >= r.max_attempts then 'give up'
                    when r.overlap = 'skip' and b.slot is not null then 'overlap'
                    else 'take over'
                end
                when j.job is null then 'meet'
                when a.slot <= j.floor then 'done'
                when a.mode = 'takeover' or p_time < a.slot then 'none'
                when p_time - a.slot > micros(a.within) then 'late'
                when r.state = 'skipped' and a.mode = 'catch-up' then 'done'
                when a.overlap = 'skip' and b.slot is not null then
                    case when r.state is null then 'skip' else 'overlap' end
                else 'start'
            end as verdict
        from (
            select u.ord::int, u.job, moment_of(u.slot) as slot, u.token, u.mode, u.instance,
                u.lease, u.overlap, u.max_attempts, u.begin_as, u.within
            from unnest(
                p_jobs, p_slots, p_tokens, p_modes, p_instances, p_leases, p_overlaps,
                p_max_attempts, p_begin_as, p_within
            ) with ordinality as u (
                job, slot, token, mode, instance, lease, overlap, max_attempts, begin_as, within,
                ord
            )
        ) as a
        left join job j on j.namespace = p_namespace and j.job = a.job
        left join run r on r.namespace = p_namespace and r.job = a.job and r.slot = a.slot
        cross join lateral (
            select count(*) as others, min(o.slot) filter (where o.expires > p_time) as slot,
                (array_agg(o.instance order by o.slot) filter (where o.expires > p_time))[1]
                    as instance
            from run o
            where o.namespace = p_namespace and o.job = a.job and o.slot <> a.slot
                and o.state in ('claimed', 'running')
        ) as b
        where p_open[a.ord]
    ) as v
$$;

-- End unfinished runs that their own token does not end: as lost, or as interrupted where the
-- token was given back; the attempts of the former end with them.
create function end_runs(
    p_namespace text, p_job text, p_slots timestamptz[], p_state text, p_time timestamptz
) returns void language plpgsql as $$
begin
    update attempt h set state = 'lost', ended = p_time
    from run r
    where r.namespace = p_namespace and r.job = p_job and r.slot = any (p_slots)
        and r.token is not null
        and (h.namespace, h.job, h.slot, h.attempt) = (r.namespace, r.job, r.slot, r.attempt);
    update run r set token = null, expires = null,
        state = case when r.token is null then p_state else 'lost' end
    where r.namespace = p_namespace and r.job = p_job and r.slot = any (p_slots);
end $$;

-- Note the attempt that a claim just won, and its fence.
create function open_attempt(p_namespace text, v judged) returns void language plpgsql as $$
begin
    insert into attempt (namespace, job, slot, attempt, state, instance, fence, started)
    values (
        p_namespace, v.job, v.slot, v.attempt, v.begin_as, v.instance, v.fence, v.clock);
    update job j set fence = v.fence where j.namespace = p_namespace and j.job = v.job;
end $$;

-- Write what a verdict asks for, under the lock of the job's record.
create function carry_out(p_namespace text, v judged) returns void language plpgsql as $$
begin
    case v.verdict
    when 'hold' then
        update run r set expires = v.clock + micros(r.lease)
        where r.namespace = p_namespace and r.job = v.job and r.slot = v.slot;
    when 'give up' then
        perform end_runs(p_namespace, v.job, array[v.slot], 'lost', v.clock);
    when 'skip' then
        insert into run (
            namespace, job, slot, state, lease, overlap, max_attempts, begins_as, attempt, lapses,
            instance, fence, started
        ) values (
            p_namespace, v.job, v.slot, 'skipped', v.asked_lease, v.overlap, v.max_attempts,
            v.begin_as, 0, 0, v.instance, 0, v.clock
        );
        insert into attempt (namespace, job, slot, attempt, state, instance, fence, started, ended)
        values (p_namespace, v.job, v.slot, 0, 'skipped', v.instance, 0, v.clock, v.clock);
    when 'take over' then
        update attempt h set state = 'lost', ended = v.clock
        from run r
        where r.namespace = p_namespace and r.job = v.job and r.slot = v.slot
            and r.token is not null
            and (h.namespace, h.job, h.slot, h.attempt)
                = (r.namespace, r.job, r.slot, r.attempt);
        update run r set state = r.begins_as, attempt = v.attempt,
            lapses = r.lapses + (r.token is not null)::int, token = v.token,
            expires = v.clock + micros(r.lease), instance = v.instance, fence = v.fence,
            started = v.clock
        where r.namespace = p_namespace and r.job = v.job and r.slot = v.slot
        returning r.state into v.begin_as;
        perform open_attempt(p_namespace, v);
    when 'start' then
        if v.overlap = 'skip' and v.others > 0 then
            perform end_runs(p_namespace, v.job, array(
                select r.slot from run r
                where r.namespace = p_namespace and r.job = v.job and r.slot <> v.slot
                    and r.state in ('claimed', 'running')
            ), 'interrupted', v.clock);
        end if;
        insert into run (
            namespace, job, slot, state, lease, overlap, max_attempts, begins_as, attempt, lapses,
            token, expires, instance, fence, started
        ) values (
            p_namespace, v.job, v.slot, v.begin_as, v.lease, v.overlap, v.max_attempts,
            v.begin_as, 1, 0, v.token, v.clock + micros(v.lease), v.instance, v.fence, v.clock
        )
        -- over the mark of a slot that was skipped
        on conflict (namespace, job, slot) do update set
            state = excluded.state, lease = excluded.lease, overlap = excluded.overlap,
            max_attempts = excluded.max_attempts, begins_as = excluded.begins_as, attempt = 1,
            token = excluded.token, expires = excluded.expires, instance = excluded.instance,
            fence = excluded.fence, started = excluded.started;
        perform open_attempt(p_namespace, v);
    else
        raise exception 'the record of job % went away', v.job
        using errcode = 'serialization_failure';
    end case;
end $$;

-- Each claim is judged without a lock first, which settles those that lose and writes nothing;
-- what is left may win, or must leave a mark, and is judged again under the locks.
create function claim(
    p_namespace text, p_jobs text[], p_slots bigint[], p_tokens text[], p_modes text[],
    p_instances text[], p_leases bigint[], p_overlaps text[], p_max_attempts bigint[],
    p_begin_as text[], p_within bigint[]
) returns setof judged language plpgsql as $$
declare
    v_open boolean[] := array_fill(true, array[cardinality(p_jobs)]);
    v_left text[] := '{}';
    v_new text[] := '{}';
    v_locked boolean;
    v_time timestamptz;
    v judged;
begin
    perform check_session();
    foreach v_locked in array array[false, true] loop
        if v_locked then
            exit when v_left = '{}';
            insert into job (namespace, job, floor)
            select p_namespace, name, store_time() from unnest(v_new) as name
            order by name collate "C"
            on conflict do nothing;
            perform lock_jobs(p_namespace, v_left);
        end if;
        v_time := store_time();
        for v in select * from judge(
            p_namespace, v_time, v_open, p_jobs, p_slots, p_tokens, p_modes, p_instances,
            p_leases, p_overlaps, p_max_attempts, p_begin_as, p_within)
        loop
            if v.verdict in ('done', 'running', 'overlap', 'none', 'late') then
                null;
            elsif not v_locked then
                v_left := v_left || v.job;
                if v.verdict = 'meet' then
                    v_new := v_new || v.job;
                end if;
                continue;
            else
                perform carry_out(p_namespace, v);
            end if;
            v_open[v.ord] := false;
            return next v;
        end loop;
    end loop;
end $$;
