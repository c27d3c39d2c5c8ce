-- Questions that an owner asks, each with its answer in DuckDB's SQL over the lake.
-- All at once:  tinyagi pipeline query --file examples/questions.sql
-- One of them:  tinyagi pipeline query "SELECT …"
-- The columns are in docs/reference/lake.md. Days and hours are those of UTC.

-- 1. What did each agent cost this week?
SELECT agent, sum(runs) AS runs, sum(input_tokens + output_tokens + cache_tokens) AS tokens, round(sum(cost), 2) AS usd
FROM gold.agent_hourly
WHERE date > current_date - INTERVAL 7 DAYS
GROUP BY agent
ORDER BY usd DESC, agent;

-- 2. Which agent is slow, and where: does its work wait, or does it run long?
SELECT agent, count(*) AS runs,
  round(quantile_cont(wait_ms, 0.95) / 1000, 1) AS wait_p95_s,
  round(quantile_cont(run_ms, 0.95) / 1000, 1) AS run_p95_s,
  CASE WHEN quantile_cont(wait_ms, 0.95) > quantile_cont(run_ms, 0.95) THEN 'waits' ELSE 'runs' END AS mostly
FROM silver.runs
WHERE ended_at IS NOT NULL
GROUP BY agent
ORDER BY greatest(quantile_cont(wait_ms, 0.95), quantile_cont(run_ms, 0.95)) DESC, agent;

-- 3. What died, and of what?
SELECT agent, error_kind, any_value(error) AS error, sum(messages) AS messages, sum(still_dead) AS still_dead,
  max(last_at) AS last_death
FROM gold.dead_letters
GROUP BY agent, fingerprint, error_kind
ORDER BY messages DESC, agent;

-- 4. Which hour of the day is the busiest?
SELECT hour(hour) AS hour_of_day, sum(runs) AS runs, count(DISTINCT date) AS days,
  round(sum(runs) / count(DISTINCT date), 1) AS runs_a_day
FROM gold.agent_hourly
GROUP BY hour_of_day
ORDER BY runs DESC, hour_of_day;

-- 5. Which conversations cost most?
SELECT conversation_id, channel, agent, messages, agents, depth, tokens, round(cost, 4) AS usd, message
FROM gold.conversations
ORDER BY cost DESC, conversation_id
LIMIT 20;

-- 6. Who hands work to whom, and how long does it take until it is done?
SELECT from_agent, to_agent, count(*) AS handoffs, count_if(status = 'dead') AS dead,
  round(quantile_cont(wait_ms, 0.5) / 1000, 1) AS wait_p50_s,
  round(quantile_cont(latency_ms, 0.5) / 1000, 1) AS done_p50_s,
  round(quantile_cont(latency_ms, 0.95) / 1000, 1) AS done_p95_s
FROM silver.handoffs
GROUP BY from_agent, to_agent
ORDER BY handoffs DESC, from_agent, to_agent;

-- 7. How long do people wait on each channel, from their message to its completion?
SELECT channel, count(*) AS messages, count(DISTINCT coalesce(sender_id, sender)) AS people,
  round(quantile_cont(latency_ms, 0.5) / 1000, 1) AS p50_s,
  round(quantile_cont(latency_ms, 0.95) / 1000, 1) AS p95_s
FROM silver.messages
WHERE from_agent IS NULL AND channel NOT IN ('board', 'chatroom', 'heartbeat', 'internal', 'schedule')
GROUP BY channel
ORDER BY messages DESC, channel;

-- 8. Which retries helped?
SELECT agent, attempt, count(*) AS retries, count_if(outcome = 'completed') AS helped,
  round(100 * count_if(outcome = 'completed') / count(*)) AS percent
FROM silver.runs
WHERE attempt > 1 AND outcome <> 'running'
GROUP BY agent, attempt
ORDER BY agent, attempt;

-- 9. Which agents has nobody used for longest?
SELECT agent, max(created_at) AS last_message,
  current_date - max(created_at)::DATE AS days_ago
FROM silver.messages
GROUP BY agent
ORDER BY last_message, agent;

-- 10. How many tokens went through which model, and for how much?
SELECT provider, model, count(*) AS runs, sum(input_tokens) AS read, sum(output_tokens) AS written,
  sum(cache_tokens) AS cached, round(sum(cost), 2) AS usd
FROM silver.runs
WHERE model IS NOT NULL
GROUP BY provider, model
ORDER BY usd DESC, model;

-- 11. What was paid for runs that gave no answer?
SELECT agent, outcome, error_kind, count(*) AS runs, round(sum(run_ms) / 60000, 1) AS minutes,
  round(sum(cost), 4) AS usd
FROM silver.runs
WHERE outcome NOT IN ('completed', 'running')
GROUP BY agent, outcome, error_kind
ORDER BY runs DESC, agent, outcome;

-- 12. Which events broke an expectation, and which one?
SELECT reason, type, count(*) AS events, min(id) AS first_id, epoch_ms(max(created_at)) AS last_at
FROM quarantine.events
GROUP BY reason, type
ORDER BY events DESC, reason, type;
