"""Certificates and node keys for a deployment on one machine, like those that docs/deploy.md creates with openssl."""

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
"""How long a loopback deployment's certificates are valid; each deployment gets new ones."""


@dataclass(frozen=True)
class Certificates:
    """Paths of the SuperLink's certificate and key, and of the authority's certificate, which its nodes trust."""

    authority: Path
    certificate: Path
    key: Path


@dataclass(frozen=True)
class NodeKey:
    """Paths of a SuperNode's private key, and of its public key, which is registered with the SuperLink."""

    private: Path
    public: Path


def write_certificates(folder: Path) -> Certificates:
    """Create an authority and a certificate for 127.0.0.1 and localhost; the authority's private key is not kept."""
    folder.mkdir(parents=True, exist_ok=True)
    authority_key, key = (ec.generate_private_key(ec.SECP384R1()) for _ in range(2))
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "fedveil loopback")])
    authority = (
        _dated(name, name, authority_key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(authority_key, hashes.SHA384())
    )
    hosts = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    certificate = (
        _dated(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")]), name, key.public_key())
        .add_extension(x509.SubjectAlternativeName(hosts), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .sign(authority_key, hashes.SHA384())
    )
    paths = Certificates(folder / "ca.crt", folder / "server.pem", folder / "server.key")
    paths.authority.write_bytes(authority.public_bytes(serialization.Encoding.PEM))
    paths.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    _write_secret(paths.key, key, serialization.PrivateFormat.PKCS8)
    return paths


def write_node_key(folder: Path, name: str) -> NodeKey:
    """Create a SuperNode's pair of keys (P-384), as `ssh-keygen -t ecdsa -b 384` does."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = NodeKey(folder / name, folder / f"{name}.pub")
    key = ec.generate_private_key(ec.SECP384R1())
    _write_secret(paths.private, key, serialization.PrivateFormat.OpenSSH)
    paths.public.write_bytes(
        key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    )
    return paths


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
