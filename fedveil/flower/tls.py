"""Certificates and node keys for a deployment on one machine, as docs/deploy.md makes them with openssl."""

from __future__ import annotations

import datetime
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_DAYS = 7
"""How long a loopback deployment's certificates hold; they are made anew for each."""


@dataclass(frozen=True)
class Certificates:
    """Where the SuperLink's certificate and key lie, and the authority's certificate that its nodes trust."""

    authority: Path
    certificate: Path
    key: Path


@dataclass(frozen=True)
class NodeKey:
    """Where a SuperNode's private key lies, and its public key, which the SuperLink is told."""

    private: Path
    public: Path


def write_certificates(folder: Path) -> Certificates:
    """Make an authority and a certificate for 127.0.0.1 and localhost; the authority's own key is not kept."""
    folder.mkdir(parents=True, exist_ok=True)
    authority_key, key = (ec.generate_private_key(ec.SECP384R1()) for _ in range(2))
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "fedveil loopback")])
    authority = (
        _dated(name, name, authority_key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(authority_key, hashes.SHA384())
    )
    places = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    certificate = (
        _dated(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")]), name, key.public_key())
        .add_extension(x509.SubjectAlternativeName(places), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .sign(authority_key, hashes.SHA384())
    )
    made = Certificates(folder / "ca.crt", folder / "server.pem", folder / "server.key")
    made.authority.write_bytes(authority.public_bytes(serialization.Encoding.PEM))
    made.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    _write_secret(made.key, key, serialization.PrivateFormat.PKCS8)
    return made


def write_node_key(folder: Path, name: str) -> NodeKey:
    """Make a SuperNode's pair of keys (P-384), as `ssh-keygen -t ecdsa -b 384` does."""
    folder.mkdir(parents=True, exist_ok=True)
    made = NodeKey(folder / name, folder / f"{name}.pub")
    key = ec.generate_private_key(ec.SECP384R1())
    _write_secret(made.private, key, serialization.PrivateFormat.OpenSSH)
    made.public.write_bytes(
        key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    )
    return made


def _dated(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))
        .not_valid_after(now + datetime.timedelta(days=_DAYS))
    )


def _write_secret(path: Path, key: ec.EllipticCurvePrivateKey, form: serialization.PrivateFormat) -> None:
    path.touch(mode=0o600)
    path.write_bytes(key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()))
