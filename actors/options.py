"""The settings that actors need, already parsed. `postroom.config` fills this in."""

import msgspec


class ActorOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Sizes and times of the actors; times in seconds.

    `mailbox_slots`: commands that may queue before a sender waits; one full turn, so that the next batch is
    complete when the last one has committed, and no more than one commit's worth of waiting hides in memory.
    `idle_seconds`: how long an actor without work stays. `crashes_allowed` in `crash_window_seconds`: one more
    puts the inbox into quarantine (study, S18). `known_inboxes`: settings kept in memory, least used go first.
    `tail_bytes`: newest entries of all inboxes kept in memory to answer waits from; bodies over `tail_body_bytes`
    are not, because no page shows them. `pull_max_batch`: rows in the window of a pull.
    `beacons_per_agent`, `beacon_terms`: more beacons, or words in one, are interests of nobody; they bound matching.
    `route_recipients`: agents that one message reaches through beacons; it bounds what one sender can cause.
    `beacon_deliveries_per_day`: what one beacon may bring in a UTC day, before it buries all others.
    """

    mailbox_slots: int = 64
    idle_seconds: float = 60.0
    crashes_allowed: int = 5
    crash_window_seconds: float = 60.0
    known_inboxes: int = 16_384
    tail_bytes: int = 64 * 1024 * 1024
    tail_body_bytes: int = 16_384
    pull_max_batch: int = 100
    beacons_per_agent: int = 100
    beacon_terms: int = 32
    route_recipients: int = 1_000
    beacon_deliveries_per_day: int = 500
