"""nginx and Caddy as `deploy/` configures them, in front of a server of the tests: the system's programs, or those that
`make` has unpacked (`build/proxies`). Only addresses, certificates and places for files are replaced.
"""

import datetime
import ipaddress
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
UNPACKED = ROOT / "build" / "proxies"

START_SECONDS = 20
PAUSE_SECONDS = 0.05
HOST = "127.0.0.1"

NGINX_AROUND = """
{user}daemon off; master_process off; pid {folder}/nginx.pid; error_log {folder}/error.log;
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
    include {folder}/postroom.conf;
}}
"""


def program(name: str) -> str:
    """Return the path of a program; skips the test where there is none."""
    found = shutil.which(name, path=f"{UNPACKED}/usr/sbin:{UNPACKED}/usr/bin:{os.environ['PATH']}:/usr/sbin")
    if found is None:
        pytest.skip(f"no {name} here")
    return found


@contextmanager
def nginx(folder: Path, upstream: int) -> Iterator[str]:
    """Run nginx before the server on the port `upstream`, with TLS; give its base URL."""
    port = free_port()
    make_certificate(folder)
    text = (DEPLOY / "nginx.conf").read_text()
    for there, here in (
        ("    listen [::]:443 ssl;\n", ""),
        ("443 ssl", f"{HOST}:{port} ssl"),
        ("127.0.0.1:8025", f"{HOST}:{upstream}"),
        ("/etc/ssl/hooks.example.org.pem", str(folder / "certificate.pem")),
        ("/etc/ssl/hooks.example.org.key", str(folder / "key.pem")),
    ):
        assert text.count(there) == 1, there
        text = text.replace(there, here)
    (folder / "postroom.conf").write_text(text)
    user = (
        "" if os.getuid() else "user root;\n"
    )  # root's folders are closed to the user that it would change to
    (folder / "nginx.conf").write_text(NGINX_AROUND.format(folder=folder, user=user))
    words = [
        program("nginx"),
        "-c",
        str(folder / "nginx.conf"),
        "-p",
        str(folder),
        "-e",
        str(folder / "error.log"),
    ]
    subprocess.run([*words, "-t", "-q"], check=True, timeout=START_SECONDS)
    with running(words, folder, port):
        yield f"https://{HOST}:{port}"


@contextmanager
def caddy(folder: Path, upstream: int) -> Iterator[str]:
    """Run Caddy before the server on the port `upstream`, without TLS; give its base URL."""
    port = free_port()
    url = f"http://{HOST}:{port}"
    (folder / "Caddyfile").write_text("{\n\tadmin off\n}\n" + (DEPLOY / "Caddyfile").read_text())
    words = [program("caddy"), "run", "--config", str(folder / "Caddyfile"), "--adapter", "caddyfile"]
    with running(words, folder, port, POSTROOM_HOST=url, POSTROOM_UPSTREAM=f"{HOST}:{upstream}"):
        yield url


@contextmanager
def running(words: list[str], folder: Path, port: int, **environment: str) -> Iterator[None]:
    """Run a program until the block ends, which begins when the program accepts connections."""
    homes = {name: str(folder) for name in ("HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME")}
    with (folder / "output").open("wb") as output:
        process = subprocess.Popen(
            words,
            env=os.environ | homes | environment,
            stdout=output,
            stderr=output,
            stdin=subprocess.DEVNULL,
        )
        try:
            for _ in range(int(START_SECONDS / PAUSE_SECONDS)):
                with socket.socket() as probe:
                    if probe.connect_ex((HOST, port)) == 0:
                        break
                try:
                    process.wait(PAUSE_SECONDS)
                except subprocess.TimeoutExpired:
                    continue
                raise AssertionError((folder / "output").read_text())
            else:
                raise AssertionError("the proxy accepts no connection")
            yield
        finally:
            process.kill()  # asked to end, Caddy would wait for the streams that are open
            process.wait(START_SECONDS)


def free_port() -> int:
    """Return a port that was free a moment ago: these programs cannot say which one they got."""
    with socket.socket() as sock:
        sock.bind((HOST, 0))
        port: int = sock.getsockname()[1]
        return port


def make_certificate(folder: Path) -> None:
    """Write a certificate for `HOST`, signed with its own key, and that key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, HOST)])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(hours=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(HOST))]), critical=False
        )
        .sign(key, hashes.SHA256())
    )
    (folder / "certificate.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    (folder / "key.pem").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
