"""A secret that is found again in whatever form it is told."""

import base64
import json
from collections.abc import Iterable
from urllib.parse import quote, quote_plus

CANARY = 'canary-7Q"&/+ö-do-not-tell'


def forms_of(secret: str) -> frozenset[str]:
    """As it is, as JSON, Python, URLs, and the encodings of headers and Secrets have it."""
    raw = secret.encode()
    quoted = (json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1], repr(secret)[1:-1])
    encoded = (base64.b64encode(raw).decode(), base64.urlsafe_b64encode(raw).decode(), raw.hex())
    return frozenset({secret, *quoted, *encoded, quote(secret), quote(secret, safe=""), quote_plus(secret)})


def found_in(texts: Iterable[str], secret: str = CANARY) -> list[str]:
    """The lines in which it stands."""
    forms = forms_of(secret)
    return [line[:300] for text in texts for line in text.splitlines() if any(form in line for form in forms)]
