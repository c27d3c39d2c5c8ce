-- Why a lane is held, apart from the sentence for people. Until now the cause was read from how the sentence begins.
ALTER TABLE lanes ADD COLUMN hold_cause TEXT CHECK (hold_cause IN ('budget', 'provider', 'fix'));

UPDATE lanes SET hold_cause = CASE
  WHEN hold_reason GLOB 'the daily budget*' THEN 'budget'
  WHEN hold_reason GLOB 'needs a fix: *' THEN 'fix'
  ELSE 'provider' END
WHERE hold_until > 0;
