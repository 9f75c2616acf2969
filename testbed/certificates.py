"""Certificates and keys of one control plane, made in memory. Elliptic curves: a key costs a millisecond, not a second."""

from datetime import datetime, timedelta
from ipaddress import ip_address

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_SKEW = timedelta(hours=1)
_VALID_FOR = timedelta(days=365)


class KeyPair(msgspec.Struct, frozen=True):
    """What one side shows (`public`, a certificate or a bare key) and what it proves that with. Both PEM."""

    public: bytes
    private: bytes


class Authority:
    """A certificate authority. Kubernetes reads a client's user from the common name and its groups from the organizations."""

    def __init__(self, now: datetime) -> None:
        self._now = now
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "defib testbed")])
        unsigned = self._certificate(self._name, self._key).add_extension(
            x509.BasicConstraints(ca=True, path_length=0), critical=True
        )
        self._root = unsigned.sign(self._key, hashes.SHA256())

    @property
    def pem(self) -> bytes:
        return self._root.public_bytes(serialization.Encoding.PEM)

    def server(self, *, names: tuple[str, ...], addresses: tuple[str, ...]) -> KeyPair:
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0])])
        answers_to = x509.SubjectAlternativeName(
            [*(x509.DNSName(name) for name in names), *(x509.IPAddress(ip_address(address)) for address in addresses)]
        )
        return self._issue(subject, ExtendedKeyUsageOID.SERVER_AUTH, answers_to)

    def client(self, user: str, groups: tuple[str, ...] = ()) -> KeyPair:
        subject = x509.Name(
            [
                *(x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups),
                x509.NameAttribute(NameOID.COMMON_NAME, user),
            ]
        )
        return self._issue(subject, ExtendedKeyUsageOID.CLIENT_AUTH)

    def _issue(self, subject: x509.Name, usage: x509.ObjectIdentifier, *more: x509.ExtensionType) -> KeyPair:
        key = ec.generate_private_key(ec.SECP256R1())
        unsigned = self._certificate(subject, key).add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        for extension in more:
            unsigned = unsigned.add_extension(extension, critical=False)
        signed = unsigned.sign(self._key, hashes.SHA256())
        return KeyPair(signed.public_bytes(serialization.Encoding.PEM), _private_pem(key))

    def _certificate(self, subject: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(self._now - _SKEW)
            .not_valid_after(self._now + _VALID_FOR)
        )


def service_account_keys() -> KeyPair:
    """The pair with which service account tokens are signed and checked."""
    key = ec.generate_private_key(ec.SECP256R1())
    public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    return KeyPair(public, _private_pem(key))


def _private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
