"""Whose run it is, told by its id alone: so also after a restart, and by any process that has the journal.

An id is a secret of 128 bits, and a mark that only its user gets from it. Whoever has the id of another's run, from a
log or over a shoulder, can do nothing with it, unless the app authenticates nobody: then the secret is all there is.
"""

from __future__ import annotations

import hmac
import re
import secrets
from base64 import urlsafe_b64encode
from hashlib import sha256
from typing import Any

import msgspec

_RUN_ID = re.compile(r"[A-Za-z0-9_-]{38}")
_SECRET_LENGTH = 22


def new_run_id(user: Any) -> str:
    """An id that nobody guesses, of a run of this user. Raises TypeError for a user that JSON does not know."""
    secret = secrets.token_urlsafe(16)
    return secret + _mark(secret, user)


def owns(user: Any, run_id: str) -> bool:
    """Whether this is the id of a run of the user; not of what is no id of a run at all."""
    if _RUN_ID.fullmatch(run_id) is None:
        return False
    secret, mark = run_id[:_SECRET_LENGTH], run_id[_SECRET_LENGTH:]
    return hmac.compare_digest(mark, _mark(secret, user))


def name_of(user: Any) -> bytes:
    """What tells a user from others. Raises TypeError for one that JSON does not know, which is another each time."""
    try:
        return msgspec.json.encode(user, order="deterministic")
    except (TypeError, ValueError, RecursionError) as error:
        raise TypeError(
            "authenticate gives what names a user, the same at each request: text, a number, or a record of such, "
            f"not {type(user).__name__}"
        ) from error


def _mark(secret: str, user: Any) -> str:
    return urlsafe_b64encode(sha256(secret.encode() + name_of(user)).digest()[:12]).decode()
