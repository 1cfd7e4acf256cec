"""How much memory a process takes on top of what it had: the peak of its resident set, not the value afterwards.

What is gone again when somebody looks has still been needed, so the set is sampled by a thread of its own
while the work goes on. On Linux the kernel keeps the exact peak (`VmHWM`), which can be reset; where it
cannot, samples must do.
"""

import threading
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

MIB = 1024 * 1024

SAMPLE_SECONDS = 0.002
"""A 10 MiB upload takes at least 50 ms on loopback: a few dozen samples."""

RESET_PEAK = "5"
"""What to write into `clear_refs` to make the present size the new peak (proc(5))."""


class MemoryGrowth:
    """Measures one process from `__enter__` to `__exit__`; then `bytes` is the growth of the peak.

    `exact` says whether the kernel's own peak was to be had.
    """

    def __init__(self, pid: int) -> None:
        self.bytes = 0
        self.exact = False
        self._process = psutil.Process(pid)
        self._proc = Path(f"/proc/{pid}")
        self._peak = 0
        self._done = threading.Event()
        self._sampler = threading.Thread(target=self._sample, daemon=True)

    def __enter__(self) -> Self:
        self.exact = self._reset_peak()
        self._before = self._process.memory_info().rss
        self._sampler.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        self._sampler.join()
        if self.exact:
            self._peak = max(self._peak, self._kernels_peak())
        self.bytes = self._peak - self._before

    def _sample(self) -> None:
        while True:
            self._peak = max(self._peak, self._process.memory_info().rss)
            if self._done.wait(SAMPLE_SECONDS):
                return

    def _reset_peak(self) -> bool:
        try:
            (self._proc / "clear_refs").write_text(RESET_PEAK)
        except OSError:
            return False
        return self._kernels_peak() > 0

    def _kernels_peak(self) -> int:
        for line in (self._proc / "status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
        return 0
