"""What can go wrong below the actors, in words that say what a caller may conclude.

There are exactly three conclusions about a unit of work, and every exception belongs to one of them:
*not stored* (nothing of it is in the database and nothing ever will be), *unknown* (it may or may not be
durable), *rejected* (it was never tried). The writer's failure table in `storage/writer.py` says which
fault leads to which.
"""


class StorageError(Exception):
    """Base of everything that storage raises on purpose."""


class NotStored(StorageError):
    """Known: nothing of this unit is in the database. Trying again is safe."""


class UnitFailed(NotStored):
    """The unit itself raised; its savepoint was rolled back and the others went on.

    `__cause__` is the unit's own exception.
    """


class StorageFull(NotStored):
    """The disk (or the configured size) is full. Reads and everything that frees space go on."""


class StorageDegraded(NotStored):
    """The store does not accept writes at present; the writer probes once a second."""


class OutcomeUnknown(StorageError):
    """The commit's own fate is not knowable (an I/O error from COMMIT). It may be durable."""


class StorageClosed(NotStored):
    """The store is closing or closed; the unit was never tried."""


class Fenced(Exception):
    """A turn believed in a head that is no longer the inbox's: its unit must not, and did not, commit."""


class InboxGone(Exception):
    """The inbox was deleted (or never existed): no unit can change it any more."""


class SlugTaken(Exception):
    """An inbox with this slug exists already."""


class ReadersBusy(StorageError):
    """No read slot came free within `read_slot_timeout_seconds`."""


class BodyGone(StorageError):
    """A piece of a large body vanished while it was being read (retention, purge or deletion took it)."""


class SecretUnreadable(StorageError):
    """A secret of an inbox is sealed and does not open, or may not be written (`storage.sealing`)."""


class DataDirectoryError(StorageError):
    """The data directory cannot be used: in use by another server, a newer schema, not a Postroom database.

    The message is one sentence for a person and contains the path that the person configured.
    """


def damaged(shown: object, finding: str) -> DataDirectoryError:
    """Return the error for a broken database; `shown` names it as the person did, `finding` is a sentence."""
    return DataDirectoryError(f"The database in {shown} is damaged; restore a backup. {finding}")
