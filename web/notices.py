"""What the server itself says to an agent, as a message in its inbox: from nobody, of the type `system`."""

import msgspec

from actors.sending import Letter
from storage.mesh_records import WakeTarget
from web.mesh_messages import mesh_said
from web.published import published_facts

SYSTEM = "system"


def wakes_are_off(target: WakeTarget) -> Letter:
    """Return the message that tells an agent that it is not woken any more. Of its URL, which may hold a credential,
    only the agent knows more.
    """
    payload = msgspec.json.encode(
        {
            "event": "wake.off",
            "failures": target.failures,
            "message": "Your wake target did not answer; it is not called any more until you check in with one again.",
        }
    )
    return Letter(
        facts=published_facts(None, len(payload)), said=mesh_said(SYSTEM), body=payload, msg_type=SYSTEM
    )
