"""No picture of this process's memory on a disk, where tokens, secrets and messages would be read at leisure."""

import resource


def forbid_core_dumps() -> None:
    """Have the kernel, and what takes core dumps in its place, write none of this process and of its children."""
    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, hard))
