"""Definitions of the lake's figures, shared by gold, the report, the analytics API and the reference page."""

from typing import Final

from tinyagi.domain.messages import RESERVED_CHANNELS

PROGRAM_CHANNELS: Final = RESERVED_CHANNELS
"""Channels whose senders are the program or an agent, never a person."""
SCHEDULE_PREFIX: Final = "schedule_"
"""The prefix of the `message_id` of every message that a schedule sends, on any channel."""
BASELINE_DAYS: Final = 2
"""Earlier days on which an agent must have worked before it can get an alert."""

DEFINITIONS: Final = {
    "dead message": (
        "A message whose status is `dead` as of the last event in the lake: it failed for the last time, was stopped, "
        "or lost its agent, and it was neither sent again nor deleted. It counts on the day of its arrival. "
        "`gold.dead_letters.still_dead`, `gold.channel_daily.dead`, `gold.handoff_edges.dead`, "
        "`gold.conversations.dead` and every `dead` of the report count these. `gold.dead_letters.messages` counts "
        "messages that died at least once. `gold.agent_hourly.dead` counts runs."
    ),
    "run": (
        "A run counts when it has ended, in the hour of its end. It was `completed`, it failed (`failures`), or it was "
        "interrupted: stopped by a person, released, or recovered after a crash. The three add up to `runs`."
    ),
    "completed share": "Completed runs divided by all runs that ended, interrupted ones included.",
    "message from a person": (
        "A message that no agent sent, on a channel other than "
        + ", ".join(f"`{name}`" for name in sorted(PROGRAM_CHANNELS))
        + ". The message of a schedule on a person's channel is one of them."
    ),
    "person": (
        "A sender of such messages: one `sender_id` of a channel, or one `sender` where the channel gives no id. "
        "Heartbeats, schedules and the board are not people."
    ),
    "duration of a conversation": (
        "`critical_path_ms`: the time from arrival to completion or death of each message, added along the slowest "
        "chain. It is null while a message of the conversation waits or runs. The report lists such a conversation "
        "as open, with the time since it started; room posts wait for the agent's next run and are left out there."
    ),
    "alert": (
        f"`cost_spike`, `error_rate` and `slow_agent` compare an hour with the agent's 7 days before it, and only when "
        f"the agent worked on at least {BASELINE_DAYS} earlier days among them. `backlog` compares an hour with the "
        "hours right before it and needs no earlier day."
    ),
}
