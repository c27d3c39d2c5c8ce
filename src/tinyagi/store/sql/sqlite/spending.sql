-- Spending: what each scope has used on a day.

-- name: add_spend
INSERT INTO spend (day, scope, tokens, cost) VALUES (?, ?, ?, ?)
ON CONFLICT (day, scope) DO UPDATE SET tokens = tokens + excluded.tokens, cost = cost + excluded.cost;

-- name: spend_of_day
SELECT scope, tokens, cost FROM spend WHERE day = ?;
