-- Responses that failed for good go once the archive has them and nobody looked at them for long.
CREATE INDEX failed_by_age ON responses (created_at) WHERE status = 'failed';
