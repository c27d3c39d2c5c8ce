-- How the runs of a conversation are found in the log. Only what begins and ends a run is indexed: to enqueue writes no
-- entry.
CREATE INDEX runs_by_conversation ON events (conversation_id)
  WHERE type = 'chain_step_start' OR type = 'chain_step_done' OR type = 'message_failed' OR type = 'message_dead'
    OR type = 'message_stopped' OR type = 'message_released' OR type = 'message_recovered';
