"""Stores for the tests of this directory."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from storage import sealing
from tests.storage.rig import Rig


@pytest.fixture
def make_rig(tmp_path: Path) -> Iterator[Callable[..., Rig]]:
    """Return what makes rigs on the test's directory, all closed at the end."""
    made: list[Rig] = []

    def make(**options: Any) -> Rig:
        made.append(Rig(tmp_path, **options))
        return made[-1]

    yield make
    for rig in made:
        rig.disk.heal()
        rig.close()


@pytest.fixture
def rig(make_rig: Callable[..., Rig]) -> Rig:
    """Return one rig with default options."""
    return make_rig()


@pytest.fixture
def quick_scrypt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have keys made in no time: the same code, but a guess would cost nothing."""
    monkeypatch.setattr(sealing, "SCRYPT_N", 2)
