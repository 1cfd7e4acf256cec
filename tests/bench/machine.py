"""What a figure depends on besides the code: processor, file system, its sync, versions. Described, never
judged.
"""

import os
import platform
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

from tests.bench.figures import quantile

MEMORY_FILE_SYSTEMS = frozenset({"tmpfs", "ramfs", "devtmpfs"})
"""Where a sync costs nothing and a durable figure would mean nothing."""

SYNC_PROBES = 200
"""Syncs of one 4 KiB page: enough for a median, 0.02 s on a fast disk and 2 s on a slow one."""

LIBRARIES = ("hypercorn", "trio", "quart", "quart-trio", "apsw", "h11")


def file_system(path: Path) -> str:
    """Return the type of the file system that holds `path` (`ext4`), `unknown` where the kernel does not say."""
    mounts = Path("/proc/self/mounts")
    if not mounts.exists():
        return "unknown"
    resolved = path.resolve()
    best, found = -1, "unknown"
    for line in mounts.read_text(encoding="utf-8").splitlines():
        _, point, kind, *_ = line.split()
        mount = Path(point.replace("\\040", " "))
        # The later line wins at equal length: it was mounted over the earlier one.
        if resolved.is_relative_to(mount) and len(mount.parts) >= best:
            best, found = len(mount.parts), kind
    return found


def disk_directory(wanted: Path | None) -> Path:
    """Return where data directories are made: `wanted`, else the first usual place that is on a disk."""
    if wanted is not None:
        return wanted
    places = [Path(tempfile.gettempdir()), Path("/var/tmp"), Path.cwd()]
    for place in places:
        if place.is_dir() and os.access(place, os.W_OK) and file_system(place) not in MEMORY_FILE_SYSTEMS:
            return place
    return places[0]


def sync_ms(directory: Path) -> float:
    """Return the median time of writing and syncing one page in `directory`, in ms."""
    sync = getattr(os, "fdatasync", os.fsync)
    spent = []
    with tempfile.TemporaryFile(dir=directory) as file:
        number = file.fileno()
        page = bytes(4096)
        for at in range(SYNC_PROBES):
            began = time.perf_counter()
            os.pwrite(number, page, at * len(page))
            sync(number)
            spent.append((time.perf_counter() - began) * 1000)
    return quantile(spent, 0.5)


def processor() -> str:
    """Return the processor's model name."""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def describe(directory: Path) -> list[str]:
    """Return lines that describe this machine and the file system of `directory`."""
    kind = file_system(directory)
    disk = f"data on {kind}, one synced page takes {sync_ms(directory):.2f} ms (median)"
    if kind in MEMORY_FILE_SYSTEMS:
        disk += " – memory, not a disk: durable figures mean nothing here; choose --directory"
    return [
        f"{processor()}, {os.cpu_count()} cores, {platform.system()} {platform.release()}, "
        f"load {os.getloadavg()[0]:.1f} before the run",
        f"Python {sys.version.split()[0]}, " + ", ".join(f"{name} {version(name)}" for name in LIBRARIES),
        disk,
    ]
