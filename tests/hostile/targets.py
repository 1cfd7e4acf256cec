"""What takes strangers' bytes, each as a function of bytes that may raise only what it documents.

A target cuts its bytes into the arguments of one parser, calls it, and checks what must hold of any result: that what
was read can be written and read again, that nobody without the secret is believed. Whatever else it raises is a
finding. `corpus/{name}/` has the first inputs of each, and every one that has found something.
"""

from base64 import b64encode
from collections.abc import Callable, Mapping
from contextlib import suppress
from ipaddress import ip_network
from pathlib import Path

import msgspec
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, derive_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from storage.lifefile import _parse as parse_life
from storage.lifefile import _slot as life_slot
from storage.records import InboxSettings, Secret
from storage.secret import SecretBytes
from storage.words import words
from tests.hostile.asked import asked, check_refusal, claims, settings
from tests.web.verify.genuine import OPTIONS, VERIFYING
from web import raw, sse
from web.addresses import TrustedProxies, network_of
from web.decoding import from_query, json_object, raw_members
from web.errors import ApiError
from web.grammar import format_time, parse_time, parse_ulid, ulid_text
from web.handshakes.model import Asked
from web.handshakes.providers import compile_handshake
from web.hosts import host_of, origin_of
from web.mcp.jsonrpc import Malformed, kept_payload, parse
from web.pages.forms import decode as decode_form
from web.params import QueryMessages, StreamInboxes, WaitForMessages
from web.verify.forms import FieldReader, parse_form
from web.verify.model import SignedHead, Verifier
from web.verify.paths import PathReader, parse_path
from web.verify.registry import check_verifier, compile_verifier
from web.waking.addresses import BadTarget, address_of, target_of

Target = Callable[[bytes], None]

CORPUS = Path(__file__).parent / "corpus"
NOW_US = 1_700_000_000_000_000
URL = "https://hooks.example.com/in/demo"

_OTHER_KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(1, 33))).public_key()
_OTHER_POINT = derive_private_key(0x0FED_CBA9_8765_4321, SECP256R1()).public_key()
UNKNOWN_SECRET = b"what-nobody-who-sends-here-knows"
UNKNOWN_SECRETS = {
    "standard-webhooks": b"whsec_" + b64encode(bytes(range(1, 33))),
    "svix": b"whsec_" + b64encode(bytes(range(1, 33))),
    "basic": b"user:" + UNKNOWN_SECRET,
    "discord": _OTHER_KEY.public_bytes_raw().hex().encode(),
    "sendgrid": b64encode(_OTHER_POINT.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)),
}
"""Other ones than those that the first inputs are signed with (`seeds.py`)."""


class Body:
    """A received body."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    @property
    def size(self) -> int:
        """Its bytes."""
        return len(self._data)

    def whole(self) -> bytes:
        """Return it."""
        return self._data


def text_of(data: bytes) -> str:
    """Return bytes as the text of a header: each byte is a character."""
    return data.decode("latin-1")


def headers_and_rest(data: bytes) -> tuple[list[tuple[bytes, bytes]], bytes]:
    """Cut `name: value` lines off, up to an empty line; names in lower case, as the server has them."""
    head, _, rest = data.partition(b"\n\n")
    lines = (line.partition(b": ") for line in head.split(b"\n"))
    return [(name.strip().lower(), value) for name, colon, value in lines if colon], rest


def _secrets(name: str) -> tuple[Secret, ...]:
    return (Secret("default", SecretBytes(UNKNOWN_SECRETS.get(name, UNKNOWN_SECRET)), NOW_US),)


def _verifier(name: str) -> Verifier:
    settings = InboxSettings(verifier=name, verifier_options=OPTIONS.get(name, {}))
    return compile_verifier(settings, _secrets(name))


_verifiers = tuple(_verifier(name) for name in VERIFYING)
_handshakes = tuple(
    handshake
    for name in VERIFYING
    if (handshake := compile_handshake(InboxSettings(verifier=name), _secrets(name))) is not None
)
_proxies = TrustedProxies((network_of("127.0.0.0/8"), network_of("10.0.0.0/8"), network_of("fd00::/8")))


def _check_code(error: Malformed) -> None:
    assert msgspec.json.decode(error.answer().body)["error"]["code"], error


def signatures(data: bytes) -> None:
    """A verifier, a head and a body: nobody knows the secret, so nobody is believed."""
    if not data:
        return
    at = data[0] % len(VERIFYING)
    name, verifier = VERIFYING[at], _verifiers[at]
    headers, body = headers_and_rest(data[1:])
    path, _, query = (
        headers.pop(0)[1].partition(b"?") if headers and headers[0][0] == b"target" else (b"", b"", b"")
    )
    head = SignedHead("POST", f"{URL}?{text_of(query)}", headers, NOW_US, path, query)
    check = verifier.begin(head)
    middle = len(body) // 2
    check.update(body[:middle])
    check.update(body[middle:])
    judgement = check.finish(Body(body))
    assert not judgement.verified, f"{name} believed somebody who does not know its secret"
    assert judgement.delivery_id is None or judgement.delivery_id


def handshakes(data: bytes) -> None:
    """A handshake and a request: it is answered or not."""
    if not data:
        return
    handshake = _handshakes[data[0] % len(_handshakes)]
    headers, body = headers_and_rest(data[1:])
    query = headers.pop(0)[1] if headers and headers[0][0] == b"target" else b""
    for verified in (None, False):
        handshake.recipe.reply(Asked(query, headers, body, verified), handshake.setup)
    if handshake.recipe.forgeable is not None:
        handshake.recipe.forgeable(body)


def templates(data: bytes) -> None:
    """The options of a verifier as an administrator wrote them: compiled, or refused in words; then used."""
    try:
        options = json_object(data)
        check_verifier("hmac", options)
    except ApiError:
        return
    verifier = compile_verifier(InboxSettings(verifier="hmac", verifier_options=options), _secrets("hmac"))
    head = SignedHead("POST", URL, [(b"x-signature", b"00" * 32), (b"x-id", b"1")], NOW_US)
    check = verifier.begin(head)
    check.update(data)
    assert not check.finish(Body(data)).verified


def cursors(data: bytes) -> None:
    """The ids of streams: what is read is written and read alike."""
    text = text_of(data)
    try:
        place = sse.parse_single_id(text)
    except ValueError:
        pass
    else:
        assert sse.parse_single_id(sse.single_id(*place)) == place
    try:
        places = sse.parse_vector_id(text)
    except ValueError:
        return
    assert sse.parse_vector_id(sse.vector_id(places)) == places


def grammar(data: bytes) -> None:
    """Times and ids: what is read is written and read alike."""
    text = text_of(data)
    ulid = parse_ulid(text)
    assert ulid is None or parse_ulid(ulid_text(ulid)) == ulid
    try:
        time_us = parse_time(text)
    except ValueError:
        return
    assert parse_time(format_time(time_us)) == time_us


def queries(data: bytes) -> None:
    """Query strings of reads, waits and streams."""
    for shape in (QueryMessages, WaitForMessages, StreamInboxes):
        try:
            from_query(shape, data, {} if shape is StreamInboxes else {"inbox": "demo"})
        except ApiError as error:
            check_refusal(error)


def objects(data: bytes) -> None:
    """Bodies of the interface, and forms of the page."""
    for read in (json_object, raw_members, decode_form):
        try:
            read(data)
        except ApiError as error:
            check_refusal(error)


def rpc(data: bytes) -> None:
    """Messages of MCP. A payload, if there is one, is a part of what was sent."""
    try:
        parse(data)
    except Malformed as error:
        _check_code(error)
        return
    try:
        payload = kept_payload(data)
    except RecursionError:
        return
    assert payload is None or payload in data


def ranges(data: bytes) -> None:
    """`Range`, for a message of so many bytes."""
    size = int.from_bytes(data[:3], "big")
    found = raw.parse_range(data[3:], size)
    if found is not None and not isinstance(found, bool):
        start, stop = found
        assert 0 <= start < stop <= size


def proxies(data: bytes) -> None:
    """Lists of proxies, from a peer that is believed and one that is not."""
    headers, _ = headers_and_rest(data)
    _proxies.client("127.0.0.1", headers)
    assert _proxies.client("192.0.2.7", headers) == "192.0.2.7"


def hosts(data: bytes) -> None:
    """Hosts and origins: the one spelling of an origin is its own."""
    text = text_of(data)
    host_of(text)
    origin = origin_of(text)
    assert origin is None or origin_of(origin) == origin
    sse.accepts([data])


def wakes(data: bytes) -> None:
    """Wake targets: refused in a sentence, or an address that is what it says."""
    text = text_of(data)
    with suppress(BadTarget):
        target_of(text)
    address = address_of(text)
    assert address is None or address_of(str(address)) == address
    with suppress(ValueError):
        ip_network(network_of(text))


def bodies(data: bytes) -> None:
    """Places in JSON and in forms, and the words of a text."""
    spelled, _, body = data.partition(b"\n")
    try:
        path = parse_path(text_of(spelled))
    except ValueError:
        path = ("type",)
    PathReader((path, ("event", "type"), (0, "id"))).read(body)
    FieldReader(("event", "payload")).read(body)
    parse_form(body)
    for word in words(body.decode(errors="replace")):
        assert word


def lives(data: bytes) -> None:
    """The life file, which a crash may have torn."""
    life = parse_life(data)
    assert life is None or parse_life(life_slot(life)) == life


TARGETS: Mapping[str, Target] = {
    one.__name__: one
    for one in (
        signatures,
        handshakes,
        templates,
        cursors,
        grammar,
        queries,
        objects,
        rpc,
        ranges,
        proxies,
        hosts,
        wakes,
        bodies,
        lives,
        asked,
        settings,
        claims,
    )
}
