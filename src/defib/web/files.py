"""The files of the page: read once, kept in memory, sent packed. Nothing else on the disk can be asked for."""

from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

import msgspec
from aiohttp import web

from defib.web.live import pack

FOLDER = Path(__file__).parent / "static"
INDEX = "index.html"
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
}
SMALL_BYTES = 500  # packed, it would hardly be smaller


class PageFile(msgspec.Struct, frozen=True, kw_only=True):
    content_type: str
    tag: str
    plain: bytes
    packed: bytes  # empty: not worth it


def read_files(folder: Path = FOLDER) -> dict[str, PageFile]:
    """By the path under which they are asked for. Reads the disk, so it is for a thread."""
    found = {
        path.relative_to(folder).as_posix(): _read(path)
        for path in sorted(folder.rglob("*"))
        if path.suffix in TYPES and path.is_file()
    }
    return found | ({"": found[INDEX]} if INDEX in found else {})


def _read(path: Path) -> PageFile:
    plain = path.read_bytes()
    return PageFile(
        content_type=TYPES[path.suffix],
        tag=f'"{sha256(plain).hexdigest()[:16]}"',
        plain=plain,
        packed=pack(plain) if len(plain) > SMALL_BYTES else b"",
    )


def serve_file(request: web.Request, files: Mapping[str, PageFile]) -> web.Response:
    known = files.get(request.path.removeprefix("/"))
    if known is None:
        raise web.HTTPNotFound(text="there is no such page")
    headers = {"Cache-Control": "no-cache", "Content-Type": known.content_type}
    return tagged(request, known.tag, (known.plain, known.packed), headers)


def tagged(request: web.Request, tag: str, bodies: tuple[bytes, bytes], headers: dict[str, str]) -> web.Response:
    """The body as the asker can read it, or that it has it already. `bodies` are the plain one and the packed one."""
    plain, packed = bodies
    headers = {**headers, "ETag": tag, "Vary": "Accept-Encoding"}
    if tag in request.headers.get("If-None-Match", ""):
        return web.Response(status=304, headers=headers)
    if packed and takes_gzip(request):
        return web.Response(body=packed, headers=headers | {"Content-Encoding": "gzip"})
    return web.Response(body=plain, headers=headers)


def takes_gzip(request: web.Request) -> bool:
    offers = (offer.partition(";") for offer in request.headers.get("Accept-Encoding", "").lower().split(","))
    return any(name.strip() == "gzip" and weight.replace(" ", "") != "q=0" for name, _, weight in offers)
