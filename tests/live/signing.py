"""GitHub's side of a webhook, written from its documentation alone: a signer that shares no line with the server.

Only `hmac` and `hashlib` are used, so that a mistake in the server's verifier cannot hide behind the same mistake here.
The one vector that GitHub prints in "Validating webhook deliveries" is checked by `test_real_input.py`.
"""

import hashlib
import hmac
from dataclasses import dataclass

Headers = list[tuple[bytes, bytes]]

HOOKSHOT = b"GitHub-Hookshot/7a0b9d7"
"""The sender's User-Agent: the name is documented, the suffix is a build of GitHub's."""

ENTERPRISE_HOST = b"github.example.com"


def sha256_signature(secret: bytes, body: bytes) -> bytes:
    """Return the value of `X-Hub-Signature-256`."""
    return b"sha256=" + hmac.new(secret, body, hashlib.sha256).hexdigest().encode()


def sha1_signature(secret: bytes, body: bytes) -> bytes:
    """Return the value of `X-Hub-Signature`, which GitHub still sends beside the other one."""
    return b"sha1=" + hmac.new(secret, body, hashlib.sha1).hexdigest().encode()


@dataclass(frozen=True)
class Delivery:
    """One delivery as GitHub makes it: what happened, to whose hook, and the body's bytes.

    `target_type` is `repository`, `organization` or `integration`. `enterprise` is the version of a GitHub Enterprise
    Server, which names itself in two further headers, and None for github.com.
    """

    event: str
    delivery_id: str
    body: bytes
    hook_id: int
    target_type: str
    target_id: int
    enterprise: str | None = None
    content_type: bytes = b"application/json"

    def headers(self, secret: bytes) -> Headers:
        """Return the header set in the order in which GitHub shows it, without Host and framing."""
        enterprise: Headers = []
        if self.enterprise is not None:
            enterprise = [
                (b"X-GitHub-Enterprise-Host", ENTERPRISE_HOST),
                (b"X-GitHub-Enterprise-Version", self.enterprise.encode()),
            ]
        return [
            (b"Accept", b"*/*"),
            (b"Content-Type", self.content_type),
            (b"User-Agent", HOOKSHOT),
            (b"X-GitHub-Delivery", self.delivery_id.encode()),
            *enterprise,
            (b"X-GitHub-Event", self.event.encode()),
            (b"X-GitHub-Hook-ID", str(self.hook_id).encode()),
            (b"X-GitHub-Hook-Installation-Target-ID", str(self.target_id).encode()),
            (b"X-GitHub-Hook-Installation-Target-Type", self.target_type.encode()),
            (b"X-Hub-Signature", sha1_signature(secret, self.body)),
            (b"X-Hub-Signature-256", sha256_signature(secret, self.body)),
        ]
