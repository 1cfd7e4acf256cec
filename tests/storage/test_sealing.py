"""A sealed value opens in its place with its key, and in no other way. The cryptography alone, without a database."""

import logging
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.errors import SecretUnreadable
from storage.sealing import NONCE_BYTES, TAG_BYTES, Kept, KeySeal, NoSeal, seal_of
from storage.secret import SecretBytes

KEY = SecretBytes(b"0123456789abcdef0123456789abcdef")
SALT = b"s" * 16
VALUE = b"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
PLACE = (7, "default")

_seal = seal_of(KEY, SALT)


def keep(value: bytes = VALUE, seal: KeySeal = _seal) -> Kept:
    return seal.keep(*PLACE, SecretBytes(value))


def opens(kept: Kept, seal: KeySeal | NoSeal = _seal, place: tuple[int, str] = PLACE) -> bool:
    try:
        return seal.open(*place, kept).matches(VALUE)
    except SecretUnreadable:
        return False


@given(
    value=st.binary(max_size=5_000), inbox_id=st.integers(1, 2**63 - 1), name=st.text(min_size=1, max_size=64)
)
def test_what_was_sealed_opens_in_its_place(value: bytes, inbox_id: int, name: str) -> None:
    kept = _seal.keep(inbox_id, name, SecretBytes(value))
    assert _seal.open(inbox_id, name, kept).matches(value)
    assert len(kept.value) == NONCE_BYTES + len(value) + TAG_BYTES


def test_nothing_of_the_value_or_of_the_key_is_in_what_is_kept() -> None:
    kept = keep()
    for at in range(len(VALUE) - 4):
        assert VALUE[at : at + 4] not in kept.value
    assert kept.key_id is not None
    assert kept.key_id not in KEY.reveal()


def test_the_same_value_is_sealed_differently_each_time() -> None:
    assert len({keep().value for _ in range(100)}) == 100


def test_every_changed_bit_is_refused() -> None:
    kept = keep()
    for bit in range(8 * len(kept.value)):
        changed = bytearray(kept.value)
        changed[bit // 8] ^= 1 << bit % 8
        assert not opens(Kept(bytes(changed), kept.key_id)), bit
    assert opens(kept)


def test_every_shorter_or_longer_value_is_refused() -> None:
    kept = keep()
    for length in range(len(kept.value)):
        assert not opens(Kept(kept.value[:length], kept.key_id)), length
        assert not opens(Kept(kept.value[length + 1 :], kept.key_id)), length
    assert not opens(Kept(kept.value + b"\0", kept.key_id))


@pytest.mark.parametrize(
    "place", [(8, "default"), (7, "defaul"), (7, "default2"), (7, ""), (7 << 8, "default"), (0, "default")]
)
def test_in_another_place_it_does_not_open(place: tuple[int, str]) -> None:
    assert not opens(keep(), place=place)


def test_the_end_of_the_id_is_not_taken_for_the_beginning_of_the_name() -> None:
    kept = _seal.keep(0x41, "b", SecretBytes(VALUE))
    assert not opens(kept, place=(0, "Ab"))


def other_seals() -> Iterator[tuple[str, KeySeal]]:
    yield "another key", seal_of(SecretBytes(KEY.reveal() + b"!"), SALT)
    yield "another salt", seal_of(KEY, b"t" * 16)
    yield "a new salt", seal_of(KEY)


@pytest.mark.parametrize(("why", "seal"), list(other_seals()), ids=[why for why, _ in other_seals()])
def test_with_another_key_it_does_not_open(why: str, seal: KeySeal) -> None:
    kept = keep()
    assert seal.key_id != _seal.key_id
    assert not opens(kept, seal)
    assert not opens(Kept(kept.value, seal.key_id), seal), "also when the row says that it is the right key"


def test_the_same_key_and_salt_make_the_same_seal() -> None:
    again = seal_of(SecretBytes(KEY.reveal()), SALT)
    assert (again.key_id, again.salt) == (_seal.key_id, SALT)
    assert opens(keep(), again)


def test_what_an_earlier_version_has_sealed_opens() -> None:
    seal = seal_of(KEY, b"a salt of 16 byt")
    value = "7477656c7665206279746573ee7d445280ddb394ed5e97e1b8ed630229a04550a63b"
    kept = Kept(bytes.fromhex(value), bytes.fromhex("a1b5a36c41c72006"))
    assert seal.open(*PLACE, kept).matches(b"s3cret")


def test_with_a_key_what_is_plain_is_not_taken() -> None:
    with pytest.raises(SecretUnreadable, match="its row was changed"):
        _seal.open(*PLACE, Kept(VALUE, None))


def test_without_a_key_what_is_plain_stays_plain_and_what_is_sealed_stays_closed() -> None:
    plain = NoSeal()
    assert plain.keep(*PLACE, SecretBytes(VALUE)) == Kept(VALUE, None)
    assert opens(Kept(VALUE, None), plain)
    with pytest.raises(SecretUnreadable, match=r"secret default of inbox 7 .*: it is sealed\."):
        plain.open(*PLACE, keep())


def test_nothing_is_written_plain_where_everything_is_sealed() -> None:
    with pytest.raises(SecretUnreadable, match=r"secret default of inbox 7 .* are sealed\."):
        NoSeal(closed=True).keep(*PLACE, SecretBytes(VALUE))


def test_a_refusal_names_the_place_and_is_logged_once_without_any_value(
    caplog: pytest.LogCaptureFixture,
) -> None:
    seal = seal_of(KEY)
    for _ in range(3):
        with pytest.raises(SecretUnreadable, match="secret default of inbox 7"):
            seal.open(*PLACE, Kept(VALUE, None))
    with pytest.raises(SecretUnreadable, match="secret other of inbox 7"):
        seal.open(7, "other", Kept(VALUE, seal.key_id))
    lines = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert len(lines) == 2
    assert "the secret default of inbox 7 does not open" in lines[0]
    assert VALUE.decode() not in caplog.text
