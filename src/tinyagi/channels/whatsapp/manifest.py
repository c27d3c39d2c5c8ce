"""What set-up and docs say about WhatsApp, in its two modes."""

from typing import Final

from tinyagi.channels.port import Manifest, Setting

CLOUD: Final = "cloud"
LINKED: Final = "linked"
DEFAULT_PORT: Final = 3779
DEFAULT_API: Final = "https://graph.facebook.com/v23.0"

MANIFEST: Final = Manifest(
    id="whatsapp",
    name="WhatsApp",
    settings=(
        Setting(
            "mode",
            "Mode",
            "cloud: Meta's official API with a business number; linked: your own phone, as WhatsApp Web does it",
            default=CLOUD,
        ),
        Setting(
            "phone_number_id",
            "Phone number ID",
            "cloud: the ID (not the number) on the page API Setup",
            is_required=True,
            mode=CLOUD,
        ),
        Setting(
            "access_token",
            "Access token",
            "cloud: a system user's token that does not expire",
            is_secret=True,
            is_required=True,
            mode=CLOUD,
        ),
        Setting(
            "app_secret",
            "App secret",
            "cloud: App settings, Basic; it signs what Meta sends",
            is_secret=True,
            is_required=True,
            mode=CLOUD,
        ),
        Setting(
            "verify_token",
            "Verify token",
            "cloud: a word of your choice, the same in the webhook's form",
            is_secret=True,
            is_required=True,
            mode=CLOUD,
        ),
        Setting("listen_host", "Address to listen on", "cloud: where Meta's posts arrive", default="127.0.0.1"),
        Setting("listen_port", "Port to listen on", "cloud: where Meta's posts arrive", default=str(DEFAULT_PORT)),
        Setting(
            "api_url",
            "Address of the API",
            "cloud: address of the platform's API, for a proxy or a server of your own",
            default=DEFAULT_API,
        ),
    ),
    steps=(
        "Cloud: on developers.facebook.com make an app with the product WhatsApp; its page API Setup shows the "
        "phone number ID.",
        "Cloud: in the business settings make a system user with the app and the permission "
        "whatsapp_business_messaging, and generate a token that never expires: the access token.",
        "Cloud: App settings, Basic, shows the app secret; choose a word as the verify token.",
        "Cloud: let a tunnel or a reverse proxy with TLS lead to the port, then enter its address and the verify token "
        "in WhatsApp, Configuration, Webhook, and subscribe to messages.",
        "Linked: start the channel, then scan its QR code on the phone: WhatsApp, Linked devices, Link a device.",
    ),
    rules=(
        "Cloud: answers are free text only within 24 hours of a person's last message; later ones fail, and alerts "
        "and schedules reach only people who wrote in that time.",
        "Cloud: the API knows no idempotency key, so an answer can be repeated once after a crash.",
        "Linked: this is not an official interface. WhatsApp can ban the number; use one that you can lose.",
        "Linked: the agents see every message that the number gets. Only paired people are answered.",
        "Linked: an answer can be repeated once after a crash.",
    ),
    text_limit=4_096,
    receive_limit=100_000_000,
    send_limit=100_000_000,
    typing_seconds=25.0,
)
"""Linked mode needs the package neonize; the channel says so, because cloud mode does not."""
