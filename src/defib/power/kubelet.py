"""Whether anybody speaks where a kubelet should. Nothing is told to it, and nothing that it says is believed.

A handshake is enough to know that it lives. Its certificate may be signed by anybody, so it proves nothing, and no token
is shown to it: whoever has taken the address of a dead node learns nothing from us.
"""

import asyncio
import errno
import ssl
from collections.abc import Awaitable, Callable

from defib.model.evidence import Says

PORT = 10250
AskKubelet = Callable[[str, int, float], Awaitable[tuple[Says, str]]]


async def ask_kubelet(address: str, port: int, within_seconds: float) -> tuple[Says, str]:
    """Never raises for what the other side does; and when, if nothing comes back, is said by `within_seconds`."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    where = f"{address}:{port}"
    try:
        async with asyncio.timeout(within_seconds):
            _, writer = await asyncio.open_connection(address, port, ssl=context)
    except ConnectionRefusedError:
        return Says.REFUSES, f"{where} refuses"
    except TimeoutError:
        return Says.SILENT, f"nothing came back from {where} within {within_seconds:g} s"
    except ssl.SSLError as error:
        return Says.ANSWERS, f"{where} answers, though not as it should: {error.reason or 'no TLS'}"
    except ConnectionResetError:
        return Says.ANSWERS, f"{where} hangs up"
    except OSError as error:
        return _of_the_way(error, where)
    writer.transport.abort()
    return Says.ANSWERS, f"{where} answers"


def _of_the_way(error: OSError, where: str) -> tuple[Says, str]:
    """A router that says that nobody is there is as good as silence; anything else is our own trouble."""
    why = errno.errorcode.get(error.errno or 0, "").replace("E", "", 1) or str(error)
    if error.errno in (errno.EHOSTUNREACH, errno.EHOSTDOWN, errno.ETIMEDOUT):
        return Says.SILENT, f"{where}: {why}"
    return Says.UNKNOWN, f"{where} could not be tried: {why}"
