"""A private certificate authority, with a broker's and a client's certificate by it."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from headrace.local.servers.broker_config import HOST

PASSWORD = "not in any plan"


@dataclass(frozen=True)
class Certificates:
    """PEM files. The client's key is encrypted with PASSWORD; the broker's lies with its certificate."""

    authority: Path
    broker: Path
    client: Path
    client_key: Path


def certificates(folder: Path) -> Certificates:
    """Make them, valid for an hour."""
    folder.mkdir()
    authority_key = ec.generate_private_key(ec.SECP256R1())
    authority = _signed("authority", authority_key, "authority", authority_key)
    made = Certificates(*(folder / f"{name}.pem" for name in ("authority", "broker", "client", "client_key")))
    made.authority.write_bytes(_text(authority))
    key = ec.generate_private_key(ec.SECP256R1())
    made.broker.write_bytes(_key(key) + _text(_signed("broker", key, "authority", authority_key)))
    key = ec.generate_private_key(ec.SECP256R1())
    made.client.write_bytes(_text(_signed("client", key, "authority", authority_key)))
    made.client_key.write_bytes(_key(key, PASSWORD))
    return made


def _signed(
    subject: str, key: ec.EllipticCurvePrivateKey, issuer: str, by: ec.EllipticCurvePrivateKey
) -> x509.Certificate:
    now = dt.datetime.now(dt.UTC)
    made = x509.CertificateBuilder(
        _name(issuer), _name(subject), key.public_key(), x509.random_serial_number()
    )
    made = made.not_valid_before(now - dt.timedelta(minutes=5)).not_valid_after(now + dt.timedelta(hours=1))
    made = made.add_extension(x509.BasicConstraints(ca=subject == issuer, path_length=None), critical=True)
    if subject != issuer:
        host = x509.SubjectAlternativeName([x509.IPAddress(IPv4Address(HOST))])
        made = made.add_extension(host, critical=False)
    return made.sign(by, hashes.SHA256())


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _text(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key(key: ec.EllipticCurvePrivateKey, password: str | None = None) -> bytes:
    encryption: serialization.KeySerializationEncryption = serialization.NoEncryption()
    if password is not None:
        encryption = serialization.BestAvailableEncryption(password.encode())
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)
