"""What set-up and docs say about the webhook channel."""

from typing import Final

from tinyagi.channels.port import Manifest, Setting

DEFAULT_PORT: Final = 3780

MANIFEST: Final = Manifest(
    id="webhook",
    name="Webhook",
    settings=(
        Setting(
            "secret",
            "Secret",
            "whsec_ and at least 24 random bytes in base64; several separated by spaces while you change it",
            is_secret=True,
            is_required=True,
        ),
        Setting("url", "Address for answers", "where each answer is sent with POST", is_required=True),
        Setting("listen_host", "Address to listen on", "for messages to the agents", default="127.0.0.1"),
        Setting("listen_port", "Port to listen on", "for messages to the agents", default=str(DEFAULT_PORT)),
    ),
    steps=(
        'Make a secret: echo "whsec_$(openssl rand -base64 32)".',
        "Give the same secret to your system: it signs its messages, and checks answers, as Standard Webhooks says.",
        "Take the address of your system to which answers are sent.",
        "When your system is on another machine, put a reverse proxy with TLS before the port.",
    ),
    rules=(
        "Every system that knows the secret can write as any sender: sender_id is what it says.",
        "An answer can arrive twice; both have the same webhook-id.",
    ),
    text_limit=100_000,
    receive_limit=5_000_000,
    send_limit=5_000_000,
    is_idempotent=True,
)
