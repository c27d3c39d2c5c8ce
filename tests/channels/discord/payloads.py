"""What Discord sends, with the fields that its documentation requires, and the ids of the test's server."""

from collections.abc import Iterable
from typing import Final

Payload = dict[str, object]

GUILD: Final = 900
CHANNEL: Final = 901
"""The server channel where mentions are answered."""
THREAD: Final = 902
OTHER_CHANNEL: Final = 903
BOT: Final = 1
BOT_ROLE: Final = 950_000_000_000_000_000

DIRECT: Final = 1
TEXT: Final = 0
FORUM: Final = 15
PUBLIC_THREAD: Final = 11
_MOMENT = "2026-01-01T00:00:00+00:00"


def user(number: int, name: str, *, is_bot: bool = False) -> Payload:
    return {
        "id": str(number),
        "username": name.lower(),
        "discriminator": "0",
        "global_name": name,
        "avatar": None,
        "bot": is_bot,
        "public_flags": 0,
        "flags": 0,
    }


def member() -> Payload:
    return {"roles": [], "joined_at": _MOMENT, "deaf": False, "mute": False, "flags": 0, "nick": None}


def message(number: int, channel: int, author: Payload, content: str, **more: object) -> Payload:
    return {
        "id": str(number),
        "channel_id": str(channel),
        "author": author,
        "content": content,
        "timestamp": _MOMENT,
        "edited_timestamp": None,
        "tts": False,
        "mention_everyone": False,
        "mentions": [],
        "mention_roles": [],
        "attachments": [],
        "embeds": [],
        "pinned": False,
        "type": 0,
        "flags": 0,
        "components": [],
        **more,
    }


def attachment(number: int, name: str, size: int, url: str) -> Payload:
    return {"id": str(number), "filename": name, "size": size, "url": url, "proxy_url": url}


def direct_channel(number: int, person: Payload) -> Payload:
    return {"id": str(number), "type": DIRECT, "last_message_id": None, "recipients": [person], "flags": 0}


def channel(number: int, guild: int, kind: int = TEXT) -> Payload:
    return {
        "id": str(number),
        "type": kind,
        "guild_id": str(guild),
        "name": f"channel-{number}",
        "position": 0,
        "permission_overwrites": [],
        "nsfw": False,
        "parent_id": None,
        "topic": None,
        "last_message_id": None,
        "flags": 0,
        "available_tags": [],
    }


def thread(number: int, guild: int, parent: int) -> Payload:
    return {
        "id": str(number),
        "type": PUBLIC_THREAD,
        "guild_id": str(guild),
        "parent_id": str(parent),
        "owner_id": "7",
        "name": f"thread-{number}",
        "last_message_id": None,
        "message_count": 0,
        "member_count": 1,
        "thread_metadata": {"archived": False, "auto_archive_duration": 60, "archive_timestamp": _MOMENT},
        "flags": 0,
    }


def role(number: int, name: str, **more: object) -> Payload:
    return {
        "id": str(number),
        "name": name,
        "color": 0,
        "colors": {"primary_color": 0, "secondary_color": None, "tertiary_color": None},
        "hoist": False,
        "position": 0,
        "permissions": "0",
        "managed": False,
        "mentionable": False,
        "flags": 0,
        **more,
    }


def guild(number: int, channels: Iterable[Payload], threads: Iterable[Payload], roles: Iterable[Payload]) -> Payload:
    return {
        "id": str(number),
        "name": "Test server",
        "owner_id": "7",
        "icon": None,
        "roles": list(roles),
        "channels": list(channels),
        "threads": list(threads),
        "members": [],
        "emojis": [],
        "stickers": [],
        "features": [],
        "voice_states": [],
        "presences": [],
        "stage_instances": [],
        "guild_scheduled_events": [],
        "soundboard_sounds": [],
        "member_count": 2,
        "verification_level": 0,
        "default_message_notifications": 0,
        "explicit_content_filter": 0,
        "mfa_level": 0,
        "nsfw_level": 0,
        "premium_tier": 0,
        "premium_progress_bar_enabled": False,
        "preferred_locale": "en-US",
        "system_channel_flags": 0,
        "afk_timeout": 300,
    }


def application(bot: Payload) -> Payload:
    return {
        "id": bot["id"],
        "name": bot["global_name"],
        "icon": None,
        "description": "",
        "bot_public": True,
        "bot_require_code_grant": False,
        "verify_key": "",
        "flags": 0,
        "owner": user(7, "Ada"),
        "team": None,
    }
