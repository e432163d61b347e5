"""A webhook of your own: the notification as JSON, signed so that its receiver can tell who sent it and when."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping
from typing import Any

from indoubt.collector.config.receivers import Post

TIMESTAMP, SIGNATURE, KEY = "X-Indoubt-Timestamp", "X-Indoubt-Signature", "Idempotency-Key"


class Webhook:
    """``X-Indoubt-Signature: v1=<hex>`` is HMAC-SHA256 of ``<timestamp>.<body>``; the timestamp is epoch seconds."""

    name = "webhook"

    def __init__(self, url: str, secret: str) -> None:
        self._url, self._secret = url, secret.encode()

    def post(self, notification: Mapping[str, Any], now_ms: int) -> Post:
        """Return the POST of a notification; its id is the idempotency key."""
        content = json.dumps(notification, separators=(",", ":")).encode()
        timestamp = str(now_ms // 1000)
        headers = {
            "Content-Type": "application/json",
            KEY: str(notification["id"]),
            TIMESTAMP: timestamp,
            SIGNATURE: signature(self._secret, timestamp, content),
        }
        return Post(url=self._url, headers=headers, content=content)


def signature(secret: bytes, timestamp: str, content: bytes) -> str:
    """Return the signature of a body that is sent at a time."""
    return "v1=" + hmac.new(secret, timestamp.encode() + b"." + content, hashlib.sha256).hexdigest()
