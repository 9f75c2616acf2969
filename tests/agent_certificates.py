"""The authority of agents, and what it issues: one certificate for asking and answering, for the name that all share."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from defib.agent.certificates import AUTHORITY, CERTIFICATE, KEY, NAME

SINCE = datetime(2020, 1, 1, tzinfo=UTC)
VALID_FOR = timedelta(days=36500)


class AgentAuthority:
    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _named("agents")
        self._root = (
            self._certificate("agents", self._key)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .sign(self._key, hashes.SHA256())
        )

    def write(self, folder: Path, name: str = NAME) -> Path:
        """A new certificate and its key, beside that of the authority, as a Secret is mounted."""
        folder.mkdir(parents=True, exist_ok=True)
        key = ec.generate_private_key(ec.SECP256R1())
        unsigned = self._certificate(name, key).add_extension(
            x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False
        )
        signed = unsigned.sign(self._key, hashes.SHA256())
        pem = serialization.Encoding.PEM
        private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        contents = {
            AUTHORITY: self._root.public_bytes(pem),
            CERTIFICATE: signed.public_bytes(pem),
            KEY: private,
        }
        for file, content in contents.items():
            fresh = folder / f".{file}"
            fresh.write_bytes(content)
            fresh.rename(folder / file)
        return folder

    def _certificate(self, name: str, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(_named(name))
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(SINCE)
            .not_valid_after(SINCE + VALID_FOR)
        )


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
