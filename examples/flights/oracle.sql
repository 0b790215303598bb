-- What the job must have written, computed from the published flights in one go: no stream, no state, no library.
--
-- Given:  published   the flights as the package holds them, and `line`, their number in its file
--         boundary    at (us)   when one file of the replay ends and the next begins
--         variables   duration, period, age, delay (us): the window and the lateness of the watermark
-- Times are whole microseconds since 1970 in UTC. A batch is one file of the replay.

-- 1. The replay: when each flight is scheduled, when it arrives in the stream, in which batch.
CREATE TABLE arrival AS
WITH timed AS (
    SELECT line, carrier, origin, carrier || flight || ' to ' || dest AS flight, dep_delay AS delay,
           dep_time IS NULL AS cancelled,
           epoch_us(make_timestamp(year, month, day, sched_dep_time // 100, sched_dep_time % 100, 0)
                    AT TIME ZONE 'America/New_York') AS scheduled
    FROM published
)
SELECT *, scheduled + coalesce(delay, 0) * 60_000_000 AS arrives,
       (SELECT count(*) FROM boundary WHERE boundary.at <= scheduled + coalesce(delay, 0) * 60_000_000) AS batch,
       row_number() OVER (ORDER BY arrives, line) AS seq
FROM timed;

-- Between two boundaries without an arrival there is no file: batches are numbered without it.
CREATE TABLE batch AS
SELECT batch AS old, row_number() OVER (ORDER BY batch) - 1 AS batch FROM (SELECT DISTINCT batch FROM arrival);
UPDATE arrival SET batch = batch.batch FROM batch WHERE arrival.batch = batch.old;

-- 2. The watermark during a batch is the latest schedule of the batches before it, less the delay, in whole milliseconds.
--    One more batch, without data, has the last watermark.
CREATE TABLE clock AS
WITH highest AS (
    SELECT batch, max(scheduled) FILTER (NOT cancelled) AS scheduled FROM arrival GROUP BY batch
    UNION ALL SELECT max(batch) + 1, NULL FROM arrival
)
SELECT batch, (max(scheduled) OVER (ORDER BY batch ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
               - getvariable('delay')) // 1000 * 1000 AS watermark
FROM highest;

-- Only a batch whose watermark went up can fire anything.
CREATE TABLE advance AS
SELECT batch, watermark FROM clock
QUALIFY watermark IS NOT NULL AND watermark IS DISTINCT FROM lag(watermark) OVER (ORDER BY batch);

-- 3. Every flight joins each pane [start, start + duration) that holds its schedule, unless that pane is closed by then.
CREATE TABLE membership AS
WITH pane AS (
    SELECT *, (scheduled // getvariable('period') - back) * getvariable('period') AS pane_start
    FROM arrival, (SELECT unnest(range(getvariable('duration') // getvariable('period') + 1)) AS back)
    WHERE NOT cancelled
)
SELECT pane.*, pane_start + getvariable('duration') AS pane_end,
       coalesce(pane_start + getvariable('duration') <= watermark, false) AS complete,
       coalesce(pane_start + getvariable('duration') + getvariable('age') <= watermark, false) AS closed
FROM pane JOIN clock USING (batch)
WHERE scheduled < pane_start + getvariable('duration');

-- 4. It is in the result of the first advance after its own batch that reaches the end of the pane, or of the flush.
CREATE TABLE fired AS
WITH ended AS (
    SELECT membership.*, advance.batch AS ended_by
    FROM membership ASOF LEFT JOIN advance ON membership.pane_end <= advance.watermark
    WHERE NOT closed
)
SELECT ended.* EXCLUDE (batch), coalesce(advance.batch, (SELECT max(batch) + 1 FROM clock)) AS fires,
       CASE WHEN advance.batch IS NULL THEN 'FLUSH' WHEN advance.batch = ended_by THEN 'WATERMARK' ELSE 'LATE' END AS reason
FROM (SELECT *, CASE WHEN ended_by IS NOT NULL THEN greatest(batch + 1, ended_by) END AS earliest FROM ended) AS ended
     ASOF LEFT JOIN advance ON ended.earliest <= advance.batch;

-- 5. A firing shows the whole pane so far; the ones after the first are its refinements.
CREATE TABLE expected_log AS
WITH firing AS (
    SELECT *, (row_number() OVER (PARTITION BY carrier, origin, pane_start ORDER BY fires) - 1)::INTEGER AS refinement
    FROM (SELECT DISTINCT carrier, origin, pane_start, pane_end, fires, reason FROM fired)
)
SELECT carrier, origin, make_timestamptz(pane_start) AS pane_start, make_timestamptz(firing.pane_end) AS pane_end,
       -- of flights equally late, the one that left first is the worst
       max(delay)::BIGINT AS worst, arg_max(flight, delay * 1_000_000 - seq) AS flight,
       avg(delay)::DOUBLE AS mean, count(*) AS n, refinement, firing.reason AS reason
FROM firing JOIN fired USING (carrier, origin, pane_start)
WHERE fired.fires <= firing.fires
GROUP BY ALL;

CREATE TABLE expected_view AS
SELECT * FROM expected_log QUALIFY row_number() OVER (PARTITION BY carrier, origin, pane_start ORDER BY refinement DESC) = 1;

-- 6. The rows that joined no pane, and how many flights were admitted, late, dropped and quarantined.
CREATE TABLE expected_quarantine AS
SELECT 'cancelled: no departure time' AS reason, scheduled FROM arrival WHERE cancelled
UNION ALL
SELECT 'LATE', scheduled FROM membership GROUP BY line, scheduled HAVING bool_and(closed);

CREATE TABLE expected_counts AS
WITH fate AS (SELECT line, bool_and(closed) AS dropped, bool_or(complete AND NOT closed) AS late FROM membership GROUP BY line)
SELECT (SELECT count(*) FROM arrival) AS rows_in,
       count(*) FILTER (NOT dropped AND NOT late) AS admitted,
       count(*) FILTER (NOT dropped AND late) AS refined_late,
       count(*) FILTER (dropped) AS dropped_late,
       (SELECT count(*) FROM arrival WHERE cancelled) AS quarantined,
       (SELECT count(*) FROM arrival WHERE NOT cancelled) - count(*) AS outside
FROM fate;
