"""Kubernetes reads who somebody is from the certificate, so it must say exactly that."""

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

from cryptography import x509
from cryptography.x509.oid import NameOID

from testbed.certificates import Authority

NOW = datetime(2026, 11, 15, tzinfo=UTC)


def test_a_client_certificate_names_the_user_and_its_groups() -> None:
    pair = Authority(NOW).client("alice", ("operators", "system:masters"))
    subject = x509.load_pem_x509_certificate(pair.public).subject
    assert [name.value for name in subject.get_attributes_for_oid(NameOID.COMMON_NAME)] == ["alice"]
    groups = subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
    assert [name.value for name in groups] == ["operators", "system:masters"]


def test_a_certificate_is_trusted_by_its_own_authority_only() -> None:
    ours, other = Authority(NOW), Authority(NOW)
    certificate = x509.load_pem_x509_certificate(ours.client("alice").public)
    certificate.verify_directly_issued_by(x509.load_pem_x509_certificate(ours.pem))
    assert other.pem != ours.pem


def test_a_server_certificate_is_good_for_each_name_and_address() -> None:
    pair = Authority(NOW).server(names=("localhost",), addresses=("127.0.0.1",))
    certificate = x509.load_pem_x509_certificate(pair.public)
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["localhost"]
    assert names.get_values_for_type(x509.IPAddress) == [ip_address("127.0.0.1")]


def test_a_certificate_is_valid_now_even_when_clocks_differ_a_little() -> None:
    certificate = x509.load_pem_x509_certificate(Authority(NOW).client("alice").public)
    assert certificate.not_valid_before_utc < NOW - timedelta(minutes=5)
    assert certificate.not_valid_after_utc > NOW + timedelta(days=30)
