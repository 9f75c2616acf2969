"""Text from elsewhere, made safe to show: for whatever writes to a terminal, logs and commands alike. It is light to import."""

import re

# Control characters move the cursor and change colours; the others turn the direction of text around or end lines.
STEERING = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str) -> str:
    """The same text, with whatever could steer a terminal or break a line shown as an escape."""
    return STEERING.sub(lambda found: found[0].encode("unicode_escape").decode(), text)
