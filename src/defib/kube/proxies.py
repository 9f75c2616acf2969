"""The proxy that the environment asks for, by the rules that kubectl and every Go program follow."""

import ipaddress
from collections.abc import Mapping
from urllib.parse import SplitResult, urlsplit


def proxy_for(server: str, environ: Mapping[str, str]) -> str:
    """HTTPS_PROXY or HTTP_PROXY (or their lower-case twins), unless NO_PROXY spares this server; else nothing."""
    parts = urlsplit(server)
    name = f"{parts.scheme}_proxy"
    proxy = environ.get(name.upper()) or environ.get(name) or ""
    if not proxy or _is_here(parts.hostname or "") or _is_spared(parts, environ):
        return ""
    return proxy if "://" in proxy else f"http://{proxy}"


def _is_spared(server: SplitResult, environ: Mapping[str, str]) -> bool:
    spared = (environ.get("NO_PROXY") or environ.get("no_proxy") or "").split(",")
    return any(_matches(rule.strip().lower(), server) for rule in spared if rule.strip())


def _matches(rule: str, server: SplitResult) -> bool:
    """`*`, an address, a range of addresses, or a domain: `a.b` with all below it, `.a.b` only what is below it."""
    host = server.hostname or ""
    if rule == "*":
        return True
    address = _address(host)
    if address is not None and "/" in rule:
        network = _network(rule)
        return network is not None and address in network
    rule, port = _split_port(rule)
    if port and port != (server.port or {"https": 443, "http": 80}[server.scheme]):
        return False
    if address is not None:
        return address == _address(rule)
    return host.endswith(rule) if rule.startswith(".") else host == rule or host.endswith(f".{rule}")


def _is_here(host: str) -> bool:
    address = _address(host)
    return host == "localhost" or (address is not None and address.is_loopback)


def _split_port(rule: str) -> tuple[str, int]:
    if rule.startswith("[") or rule.count(":") == 1:
        name, _, port = rule.rpartition(":") if not rule.endswith("]") else (rule, "", "")
        return name.strip("[]"), int(port) if port.isdecimal() else 0
    return rule, 0


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def _network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    try:
        return ipaddress.ip_network(text, strict=False)
    except ValueError:
        return None
