"""A private CA and a certificate for localhost, made once in the state directory."""

from __future__ import annotations

import datetime
import ipaddress
import os
import ssl
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

ALPN_TDS8 = "tds/8.0"
_LIFETIME = datetime.timedelta(days=3650)
_RENEW_BEFORE = datetime.timedelta(days=30)
_KEY_BITS = 2048


@dataclass(frozen=True, slots=True)
class Certificate:
    """Where the certificate lies; `ca` is what clients trust (SSL_CERT_FILE)."""

    ca: Path
    chain: Path
    key: Path


def ensure_certificate(state_dir: Path) -> Certificate:
    """The certificate of a state directory, made on first use and anew before it expires.

    The CA's own key is forgotten once it has signed: nobody can sign with it later.
    """
    directory = state_dir / "tls"
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    files = Certificate(directory / "ca.pem", directory / "server.pem", directory / "server.key")
    if not _is_usable(files):
        _make(files)
    return files


def server_contexts(files: Certificate) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """TLS for TDS 7.4 (inside packets) and for TDS 8 (before them)."""
    inside, before = (ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER) for _ in range(2))
    for context in (inside, before):
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(files.chain, files.key)
    # With 1.3 the client sends its last flight outside of TDS packets.
    inside.maximum_version = ssl.TLSVersion.TLSv1_2
    before.set_alpn_protocols([ALPN_TDS8])
    return inside, before


def _is_usable(files: Certificate) -> bool:
    if not all(path.exists() for path in (files.ca, files.chain, files.key)):
        return False
    certificate = x509.load_pem_x509_certificate(files.chain.read_bytes())
    now = datetime.datetime.now(datetime.UTC)
    return certificate.not_valid_after_utc - now > _RENEW_BEFORE


def _make(files: Certificate) -> None:
    ca_key, ca = _make_ca()
    key = rsa.generate_private_key(public_exponent=65537, key_size=_KEY_BITS)
    names = x509.SubjectAlternativeName(
        [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    )
    usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key())
    certificate = (
        _builder("localhost", ca.subject, key.public_key())
        .add_extension(names, critical=False)
        .add_extension(usage, critical=False)
        .add_extension(issuer, critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .sign(ca_key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    private = key.private_bytes(
        pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    _write(files.key, private, 0o600)
    _write(files.ca, ca.public_bytes(pem), 0o644)
    _write(files.chain, certificate.public_bytes(pem), 0o644)


def _make_ca() -> tuple[rsa.RSAPrivateKey, x509.Certificate]:
    key = rsa.generate_private_key(public_exponent=65537, key_size=_KEY_BITS)
    name = _name("cdc-assets sandbox CA")
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    usage = x509.KeyUsage(
        digital_signature=False,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=True,
        crl_sign=True,
        encipher_only=False,
        decipher_only=False,
    )
    certificate = (
        _builder("cdc-assets sandbox CA", name, key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(identifier, critical=False)
        .sign(key, hashes.SHA256())
    )
    return key, certificate


def _builder(subject: str, issuer: x509.Name, key: rsa.RSAPublicKey) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(_name(subject))
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + _LIFETIME)
    )


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _write(path: Path, data: bytes, mode: int) -> None:
    temporary = path.with_suffix(path.suffix + ".new")
    temporary.unlink(missing_ok=True)
    with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        file.write(data)
    temporary.replace(path)
