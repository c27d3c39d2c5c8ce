"""Write to the agents through the webhook channel, and print the first answer: python examples/webhook_channel.py hello

Set WEBHOOK_SECRET to the channel's secret and let its url be http://127.0.0.1:3790/. It needs Python only.
"""
# ruff: noqa: T201 - the answer is its result

import base64
import hmac
import http.server
import json
import os
import sys
import time
import urllib.request
import uuid

SECRET = base64.b64decode(os.environ["WEBHOOK_SECRET"].removeprefix("whsec_"))
CHANNEL = os.environ.get("WEBHOOK_CHANNEL", "http://127.0.0.1:3780/messages")


def signature(message_id: str, timestamp: str, body: bytes) -> str:
    digest = hmac.digest(SECRET, f"{message_id}.{timestamp}.".encode() + body, "sha256")
    return "v1," + base64.b64encode(digest).decode()


class Answers(http.server.BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body, head = self.rfile.read(int(self.headers["content-length"])), self.headers
        is_ours = signature(head["webhook-id"], head["webhook-timestamp"], body) in head["webhook-signature"].split()
        self.send_response(204 if is_ours else 401)
        self.end_headers()
        if is_ours:
            print(json.loads(body)["text"])


with http.server.HTTPServer(("127.0.0.1", int(os.environ.get("ANSWERS_PORT", "3790"))), Answers) as server:
    message_id, timestamp = f"msg_{uuid.uuid4().hex}", str(int(time.time()))
    body = json.dumps({"sender_id": "script", "sender": "Script", "text": " ".join(sys.argv[1:])}).encode()
    signed = signature(message_id, timestamp, body)
    headers = {"webhook-id": message_id, "webhook-timestamp": timestamp, "webhook-signature": signed}
    urllib.request.urlopen(urllib.request.Request(CHANNEL, body, headers)).close()  # noqa: S310 - the address is ours
    server.handle_request()
