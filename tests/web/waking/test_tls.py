"""Wakes over TLS: the certificate must be good and the name in it the target's."""

import ssl
from collections.abc import Callable
from datetime import datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
import trio
import trio.testing
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from structlog.testing import capture_logs

from tests.web.waking.targets import LOOPBACK, NAME, call, listening, sender
from web.waking.sender import WAKE_SECONDS

OTHER_NAME = "other.example"
DAY = timedelta(days=1)


class Authority:
    """A certificate authority of one test."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "Authority of a test")])
        root = self._certificate(self._name, self._key.public_key(), None)
        self._root = folder / "root.pem"
        self._root.write_bytes(root.public_bytes(serialization.Encoding.PEM))

    def trusted(self) -> ssl.SSLContext:
        """Return a client's context that trusts this authority and no other."""
        return ssl.create_default_context(cafile=str(self._root))

    def server(self, *names: str, age: timedelta = timedelta()) -> ssl.SSLContext:
        """Return a server's context with a certificate of these names and addresses, that is so old."""
        key = ec.generate_private_key(ec.SECP256R1())
        place: list[x509.GeneralName] = [
            x509.IPAddress(ip_address(name)) if ":" in name or name[0].isdigit() else x509.DNSName(name)
            for name in names
        ]
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, names[0])])
        certificate = self._certificate(subject, key.public_key(), place, age)
        pem = self._folder / f"{names[0].replace(':', '_')}.pem"
        pem.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
            + certificate.public_bytes(serialization.Encoding.PEM)
        )
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(pem)
        return context

    def _certificate(
        self,
        subject: x509.Name,
        key: ec.EllipticCurvePublicKey,
        names: list[x509.GeneralName] | None,
        age: timedelta = timedelta(),
    ) -> x509.Certificate:
        now = datetime.now().astimezone() - age
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - DAY)
            .not_valid_after(now + DAY)
            .add_extension(x509.BasicConstraints(ca=names is None, path_length=None), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False
            )
        )
        if names is None:
            usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
            builder = builder.add_extension(usage, critical=True)
        else:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return builder.sign(self._key, hashes.SHA256())


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.mark.parametrize(("host", "names"), [(NAME, NAME), ("127.0.0.1", "127.0.0.1")])
async def test_a_target_with_a_good_certificate_is_woken(host: str, names: str, authority: Authority) -> None:
    asked: list[str | None] = []
    context = authority.server(names)
    context.sni_callback = lambda _, name, __: asked.append(name)
    async with listening(tls=context) as target:
        poster = sender(LOOPBACK, meaning={NAME: ["127.0.0.1"]}, tls=authority.trusted)
        assert await poster.post(call(target.url(host, scheme="https")))
        assert target.requests[0][0].target == b"/wake"
    assert asked == [host if host == NAME else None]


def other_name(authority: Authority) -> ssl.SSLContext:
    return authority.server(OTHER_NAME)


def only_the_address(authority: Authority) -> ssl.SSLContext:
    return authority.server("127.0.0.1")


def expired(authority: Authority) -> ssl.SSLContext:
    return authority.server(NAME, age=7 * DAY)


def of_somebody_else(authority: Authority) -> ssl.SSLContext:
    folder = authority._folder / "else"
    folder.mkdir()
    return Authority(folder).server(NAME)


@pytest.mark.parametrize("server", [other_name, only_the_address, expired, of_somebody_else])
async def test_a_wrong_certificate_is_a_failure_and_nothing_is_sent(
    server: Callable[[Authority], ssl.SSLContext], authority: Authority
) -> None:
    async with listening(tls=server(authority)) as target:
        poster = sender(LOOPBACK, meaning={NAME: ["127.0.0.1"]}, tls=authority.trusted)
        with capture_logs() as logs:
            assert not await poster.post(call(target.url(NAME, scheme="https")))
        assert target.requests == []
    assert logs[0]["reason"].startswith("its certificate was refused (")


async def test_by_default_a_certificate_that_the_system_does_not_know_is_refused(
    authority: Authority,
) -> None:
    async with listening(tls=authority.server("127.0.0.1")) as target:
        assert not await sender(LOOPBACK).post(call(target.url(scheme="https")))
        assert target.requests == []


async def test_plain_http_on_the_other_side_is_a_failure() -> None:
    async with listening() as target:
        assert not await sender(LOOPBACK).post(call(target.url(scheme="https")))


async def test_a_handshake_that_hangs_is_given_up_and_the_connection_closed(
    mock_clock: trio.testing.MockClock,
) -> None:
    came, gone = trio.Event(), trio.Event()

    async def hanging(stream: trio.SocketStream) -> None:
        came.set()
        while await stream.receive_some(4096):
            pass
        gone.set()
        await stream.aclose()

    outcome: list[bool] = []

    async def posting(url: str) -> None:
        outcome.append(await sender(LOOPBACK).post(call(url)))

    async with trio.open_nursery() as nursery:
        [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, hanging, [listener])
        async with trio.open_nursery() as posts:
            posts.start_soon(posting, f"https://127.0.0.1:{listener.socket.getsockname()[1]}/")
            await came.wait()
            await trio.testing.wait_all_tasks_blocked()
            assert outcome == []
            mock_clock.jump(WAKE_SECONDS * 1.01)
        await gone.wait()
        nursery.cancel_scope.cancel()
    assert outcome == [False]
