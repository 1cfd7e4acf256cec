"""Time on a virtual clock, in tests that have one."""

import trio


async def pass_time(seconds: float) -> None:
    """Let this much time pass for everybody. Takes none with an autojump clock."""
    with trio.move_on_after(seconds):
        await trio.sleep_forever()
