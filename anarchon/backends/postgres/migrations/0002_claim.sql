-- Claims.
--
-- Arguments of a call: the namespace, then one array an attribute, in the order of the
-- questions; slots are milliseconds since the epoch, durations microseconds (days of an interval
-- would follow the session's time zone). Answer: one row a question; ord counts the questions
-- from 1, clock is the store's time, the other columns are the fields of the answer.

create type asked as (
    job text, slot timestamptz, token text, mode text, instance text, lease bigint, overlap text,
    max_attempts bigint, begin_as text, within bigint, start_within bigint, after timestamptz
);

-- What is to be done about a claim, and the answer to it.
create type judged as (
    ord int, verdict text, clock timestamptz,
    outcome text, attempt int, fence bigint, lease bigint, holder text, blocker timestamptz,
    waits boolean, start_by timestamptz
);

-- The rule for a claim; reads only.
create function judge(p_namespace text, p_time timestamptz, a asked) returns judged
language plpgsql as $$
declare
    v judged;
    r record;
begin
    -- one statement, so one snapshot: a look has no lock
    select x.*, j.floor, j.newest, j.fence as last_fence,
        case when coalesce(x.state, 'skipped') in ('skipped', 'claimed', 'queued', 'running') then (
            select min(o.slot) from run o
            where o.namespace = p_namespace and o.job = a.job and o.slot <> a.slot
                and o.state in ('claimed', 'queued', 'running') and o.expires > p_time
        ) end as busy
    into r
    from (select) as one
    left join job j on j.namespace = p_namespace and j.job = a.job
    left join run x on x.namespace = p_namespace and x.job = a.job and x.slot = a.slot;

    v.verdict := case
        when r.state <> 'skipped' then case
            when r.state not in ('claimed', 'queued', 'running') then 'done'
            when r.deadline <= p_time and (r.expires is null or r.expires <= p_time) then 'expire'
            -- its publisher's again only as long as no worker has it
            when r.expires > p_time and r.token = a.token and r.nonce is null
                and r.state <> 'queued' then 'hold'
            when r.expires > p_time or a.mode <> 'takeover' or r.token = a.token
                or a.token = any (r.spent) or 'lapsed:' || a.token = any (r.spent)
                then 'running'
            when r.token is not null and r.lapses + 1 >= r.max_attempts then 'give up'
            when r.overlap = 'skip' and r.busy is not null then 'overlap'
            else 'take over'
        end
        when r.floor is null then 'meet'
        when a.slot <= r.floor then 'done'
        when a.after < r.newest or a.slot <= a.after then 'done'
        when a.mode = 'takeover' or p_time < a.slot then 'none'
        when p_time - a.slot > micros(a.within) or a.slot + micros(a.start_within) <= p_time
            then 'late'
        when r.state = 'skipped' and a.mode = 'catch-up' then 'done'
        when a.overlap = 'skip' and r.busy is not null and r.state is null then 'skip'
        when a.overlap = 'skip' and r.busy is not null then 'overlap'
        else 'start'
    end;

    v.clock := p_time;
    v.outcome := v.verdict;
    v.attempt := 0;
    v.fence := 0;
    v.waits := v.verdict = 'running' and r.state = 'queued';
    case v.verdict
    when 'hold', 'running' then
        v.attempt := r.attempt;
        v.fence := r.fence;
        v.lease := r.lease;
        v.holder := r.instance;
        v.start_by := case v.verdict when 'hold' then r.deadline end;
    when 'take over', 'start' then
        v.attempt := case v.verdict when 'start' then 1 else r.attempt + 1 end;
        -- the time keeps it growing even after the store lost the record
        v.fence := greatest(r.last_fence + 1, millis_of(p_time));
        v.lease := case v.verdict when 'start' then a.lease else r.lease end;
        v.holder := a.instance;
        v.start_by := case
            when v.verdict = 'start' then a.slot + micros(a.start_within)
            -- once it was begun the time to begin counts anew
            when r.start_within is not null
                then coalesce(r.deadline, p_time + micros(r.start_within))
        end;
    when 'skip', 'overlap' then
        v.outcome := 'overlap';
        v.blocker := r.busy;
        select o.instance into v.holder from run o
        where o.namespace = p_namespace and o.job = a.job and o.slot = r.busy;
    when 'give up', 'expire' then
        v.outcome := 'done';
    else
        null;
    end case;
    if v.verdict in ('hold', 'take over', 'start') then
        v.outcome := 'won';
    end if;
    return v;
end $$;

-- End unfinished runs that their own token does not end: as expired past their start deadline,
-- else as lost, or in p_state where the token was given back, and the attempt closed then.
create function end_runs(
    p_namespace text, p_job text, p_slots timestamptz[], p_state text, p_time timestamptz
) returns void language plpgsql as $$
begin
    perform close_attempt(
        p_namespace, p_job, r.slot, r.attempt,
        case when r.deadline <= p_time then 'expired' else 'lost' end, p_time
    )
    from run r
    where r.namespace = p_namespace and r.job = p_job and r.slot = any (p_slots)
        and r.token is not null;
    update run r set token = null, expires = null,
        state = case when r.deadline <= p_time then 'expired'
            when r.token is null then p_state else 'lost' end
    where r.namespace = p_namespace and r.job = p_job and r.slot = any (p_slots);
end $$;

-- Note the attempt that a claim just won, and its fence.
create function open_attempt(p_namespace text, a asked, v judged, p_state text) returns void
language plpgsql as $$
begin
    insert into attempt (namespace, job, slot, attempt, state, instance, fence, started)
    values (p_namespace, a.job, a.slot, v.attempt, p_state, a.instance, v.fence, v.clock);
    update job j set fence = v.fence, newest = greatest(j.newest, a.slot)
    where j.namespace = p_namespace and j.job = a.job;
end $$;

-- Write what a verdict asks for, under the lock of the job's record.
create function carry_out(p_namespace text, a asked, v judged) returns void
language plpgsql as $$
declare
    v_state text;
    v_others timestamptz[];
begin
    case v.verdict
    when 'hold' then
        update run r set expires = v.clock + micros(r.lease)
        where r.namespace = p_namespace and r.job = a.job and r.slot = a.slot;
    when 'give up', 'expire' then
        perform end_runs(p_namespace, a.job, array[a.slot], 'lost', v.clock);
    when 'skip' then
        insert into run (
            namespace, job, slot, state, lease, overlap, max_attempts, begins_as, attempt, lapses,
            instance, fence, started
        ) values (
            p_namespace, a.job, a.slot, 'skipped', a.lease, a.overlap, a.max_attempts, a.begin_as,
            0, 0, a.instance, 0, v.clock
        );
        insert into attempt (namespace, job, slot, attempt, state, instance, fence, started, ended)
        values (p_namespace, a.job, a.slot, 0, 'skipped', a.instance, 0, v.clock, v.clock);
        update job j set newest = greatest(j.newest, a.slot)
        where j.namespace = p_namespace and j.job = a.job;
    when 'take over' then
        -- that of a released run was closed when it was released
        perform close_attempt(p_namespace, a.job, a.slot, v.attempt - 1, 'lost', v.clock)
        from run r
        where r.namespace = p_namespace and r.job = a.job and r.slot = a.slot
            and r.token is not null;
        update run r set state = r.begins_as, attempt = v.attempt,
            lapses = r.lapses + (r.token is not null)::int, token = a.token,
            spent = case when r.token is null then r.spent
                else r.spent || ('lapsed:' || r.token) end,
            expires = v.clock + micros(r.lease), instance = a.instance, fence = v.fence,
            started = v.clock, retry = 0, nonce = null, holder = null, deadline = v.start_by
        where r.namespace = p_namespace and r.job = a.job and r.slot = a.slot
        returning r.state into v_state;
        perform open_attempt(p_namespace, a, v, v_state);
    when 'start' then
        if a.overlap = 'skip' then
            v_others := array(
                select r.slot from run r
                where r.namespace = p_namespace and r.job = a.job and r.slot <> a.slot
                    and r.state in ('claimed', 'queued', 'running')
            );
            if v_others <> '{}' then
                perform end_runs(p_namespace, a.job, v_others, 'interrupted', v.clock);
            end if;
        end if;
        insert into run (
            namespace, job, slot, state, lease, overlap, max_attempts, begins_as, attempt, lapses,
            token, expires, instance, fence, started, start_within, deadline
        ) values (
            p_namespace, a.job, a.slot, a.begin_as, a.lease, a.overlap, a.max_attempts, a.begin_as,
            1, 0, a.token, v.clock + micros(a.lease), a.instance, v.fence, v.clock,
            a.start_within, v.start_by
        )
        -- over the mark of a slot that was skipped
        on conflict (namespace, job, slot) do update set
            state = excluded.state, lease = excluded.lease, overlap = excluded.overlap,
            max_attempts = excluded.max_attempts, begins_as = excluded.begins_as, attempt = 1,
            token = excluded.token, expires = excluded.expires, instance = excluded.instance,
            fence = excluded.fence, started = excluded.started,
            start_within = excluded.start_within, deadline = excluded.deadline;
        perform open_attempt(p_namespace, a, v, a.begin_as);
    else
        raise exception 'the record of job % went away', a.job
        using errcode = 'serialization_failure';
    end case;
end $$;

-- Give the record that a claim has just made its floor: the time, but right below a slot in
-- time, which would be lost otherwise. Whoever then asks with an older newest slot than that
-- found its own by what the store has lost.
create function meet(p_namespace text, p_time timestamptz, a asked) returns void
language plpgsql as $$
declare
    v_in_time boolean :=
        a.mode = 'scheduled' and a.slot <= p_time and p_time - a.slot <= micros(a.within);
    v_floor timestamptz :=
        case when v_in_time then a.slot - interval '1 millisecond' else p_time end;
begin
    update job j set floor = v_floor,
        newest = case when v_in_time then least(v_floor, a.after) else v_floor end
    where j.namespace = p_namespace and j.job = a.job;
end $$;

-- Each claim is judged without a lock first, which settles those that lose and writes nothing;
-- what is left may win, or must leave a mark, and is judged again under the locks.
create function claim(
    p_namespace text, p_jobs text[], p_slots bigint[], p_tokens text[], p_modes text[],
    p_instances text[], p_leases bigint[], p_overlaps text[], p_max_attempts bigint[],
    p_begin_as text[], p_within bigint[], p_start_within bigint[], p_after bigint[]
) returns setof judged language plpgsql as $$
declare
    v_asked asked[] := array(
        select row(
            u.job, moment_of(u.slot), u.token, u.mode, u.instance, u.lease, u.overlap,
            u.max_attempts, u.begin_as, u.within, u.start_within, moment_of(u.after)
        )::asked
        from unnest(
            p_jobs, p_slots, p_tokens, p_modes, p_instances, p_leases, p_overlaps, p_max_attempts,
            p_begin_as, p_within, p_start_within, p_after
        ) as u (
            job, slot, token, mode, instance, lease, overlap, max_attempts, begin_as, within,
            start_within, after
        )
    );
    v_may_win int[] := '{}';
    v_new text[] := '{}';
    v_made text[];
    v_time timestamptz;
    v judged;
    i int;
begin
    perform check_session();
    v_time := store_time();
    for i in 1 .. cardinality(v_asked) loop
        v := judge(p_namespace, v_time, v_asked[i]);
        if v.verdict in ('done', 'running', 'overlap', 'none', 'late') then
            v.ord := i;
            return next v;
            continue;
        end if;
        v_may_win := v_may_win || i;
        if v.verdict = 'meet' then
            v_new := v_new || p_jobs[i];
        end if;
    end loop;
    if v_may_win = '{}' then
        return;
    end if;

    v_made := array(select make_records(p_namespace, v_new));
    perform lock_jobs(p_namespace, array(select p_jobs[u.i] from unnest(v_may_win) as u (i)));
    v_time := store_time();
    foreach i in array v_may_win loop
        if p_jobs[i] = any (v_made) then
            perform meet(p_namespace, v_time, v_asked[i]);
        end if;
        v := judge(p_namespace, v_time, v_asked[i]);
        v.ord := i;
        if v.verdict not in ('done', 'running', 'overlap', 'none', 'late') then
            perform carry_out(p_namespace, v_asked[i], v);
        end if;
        return next v;
    end loop;
end $$;
