"""What is refused before anything is done: by origin, user, kind and size of what is sent."""

import json
from typing import Any

import anyio
import pytest
from starlette.exceptions import HTTPException
from starlette.requests import Request

from streamkit.items import user
from streamkit.testing.leftovers import nothing_left
from streamkit.web import app
from streamkit.web.guards import BODY_SECONDS, MAX_DEPTH

from ..attacks import in_ticks
from .asgi import Exchange, ask, asking
from .serving import JSON, Agent, of_header, post

# Origin


@pytest.mark.parametrize(
    ("origin", "host", "allowed", "passes"),
    [
        (None, "example.org", (), True),
        ("https://example.org", "example.org", (), True),
        ("http://example.org", "example.org", (), True),
        ("https://EXAMPLE.org", "example.org", (), True),
        ("http://localhost:8000", "localhost:8000", (), True),
        ("https://evil.org", "example.org", (), False),
        ("https://example.org.evil.org", "example.org", (), False),
        ("https://example.org:8443", "example.org", (), False),
        ("null", "example.org", (), False),
        ("", "", (), False),
        ("https://", "", (), False),
        ("https://page.org", "example.org", ("https://page.org",), True),
        ("http://page.org", "example.org", ("https://page.org",), False),
        ("https://any.org", "example.org", ("*",), True),
    ],
)
async def test_pages_of_elsewhere_change_nothing(
    origin: str | None, host: str, allowed: tuple[str, ...], passes: bool
) -> None:
    headers = {"host": host} if origin is None else {"host": host, "origin": origin}
    asked = await post(app(Agent(["Ho"]), allowed_origins=allowed), "/runs", {"message": "Hi"}, headers)
    assert asked.status == (200 if passes else 403)


async def test_a_page_that_is_allowed_may_ask_and_read() -> None:
    served = app(Agent(["Ho"]), allowed_origins=["https://page.org"])
    origin = {"origin": "https://page.org"}
    wanted = {"access-control-request-method": "POST", "access-control-request-headers": "content-type,authorization"}
    before = await ask(served, "OPTIONS", "/runs", headers={**origin, **wanted})
    assert before.status == 200
    assert before.headers["access-control-allow-origin"] == "https://page.org"
    asked = await post(served, "/runs", {"message": "Hi"}, origin)
    assert asked.headers["access-control-allow-origin"] == "https://page.org"
    assert asked.headers["access-control-allow-credentials"] == "true"
    assert "x-run-id" in asked.headers["access-control-expose-headers"]


async def test_other_pages_are_told_nothing() -> None:
    served = app(Agent(["Ho"]), allowed_origins=["https://page.org"])
    asked = await ask(served, "GET", "/runs/a", headers={"origin": "https://evil.org"})
    assert "access-control-allow-origin" not in asked.headers
    asked = await ask(app(Agent(["Ho"])), "GET", "/runs/a", headers={"origin": "https://evil.org"})
    assert not [name for name in asked.headers if name.startswith("access-control")]


async def test_all_pages_may_ask_without_cookies() -> None:
    asked = await post(
        app(Agent(["Ho"]), allowed_origins=["*"]),
        "/runs",
        {"message": "Hi"},
        {"origin": "https://any.org", "cookie": "a=b"},
    )
    assert asked.headers["access-control-allow-origin"] == "*"
    assert "access-control-allow-credentials" not in asked.headers


@pytest.mark.parametrize(
    "origin", ["https://example.org/", "https://*.example.org", "example.org", "https://Example.org", "null", ""]
)
def test_an_origin_that_no_browser_sends_says_so(origin: str) -> None:
    with pytest.raises(ValueError, match="an origin is like"):
        app(Agent(), allowed_origins=["https://example.org:8000", "capacitor://localhost", origin])


def test_one_origin_that_is_no_list_says_so() -> None:
    with pytest.raises(TypeError, match=r"\['https://page.org'\]"):
        app(Agent(), allowed_origins="https://page.org")


# User


async def test_a_hook_may_be_async_and_gives_the_user() -> None:
    async def authenticate(request: Request) -> dict[str, Any] | None:
        await anyio.lowlevel.checkpoint()
        return {"name": "ann", "roles": ["a"]} if request.cookies.get("session") == "1" else None

    agent = Agent(["Ho"])
    served = app(agent, authenticate=authenticate)
    assert (await post(served, "/runs", {"message": "Hi"})).status == 401
    asked = await post(served, "/runs", {"message": "Hi"}, {"cookie": "session=1"})
    assert asked.status == 200
    assert agent.asked[0].user == {"name": "ann", "roles": ["a"]}
    status = await ask(served, "GET", f"/runs/{asked.headers['x-run-id']}", headers={"cookie": "session=1"})
    assert status.status == 200


@pytest.mark.parametrize("nobody", [None, False, "", {}, ()])
async def test_what_is_false_or_empty_names_nobody(nobody: object) -> None:
    assert (await post(app(Agent(), authenticate=lambda request: nobody), "/runs", {"message": "Hi"})).status == 401


@pytest.mark.parametrize("name", [0, True, {"id": None}])
async def test_a_user_may_have_any_name(name: object) -> None:
    served = app(Agent(["Ho"]), authenticate=lambda request: name)
    assert (await post(served, "/runs", {"message": "Hi"})).status == 200


async def test_who_is_not_known_is_asked_for_no_body() -> None:
    asked = Exchange([b"x" * 10] * 1000)
    await ask(app(Agent(), authenticate=of_header("x-user")), "POST", "/runs", headers=JSON, exchange=asked)
    assert (asked.status, asked.json) == (401, {"error": "the user is not known"})


async def test_a_hook_says_itself_why_it_refuses() -> None:
    def authenticate(request: Request) -> None:
        raise HTTPException(401, "log in", {"www-authenticate": "Bearer"})

    asked = await post(app(Agent(), authenticate=authenticate), "/runs", {"message": "Hi"})
    assert (asked.status, asked.json, asked.headers["www-authenticate"]) == (401, {"error": "log in"}, "Bearer")


async def test_a_hook_that_fails_lets_nobody_in() -> None:
    def authenticate(request: Request) -> str:
        raise KeyError("secret")

    exchange = Exchange(b'{"message": "Hi"}')
    with pytest.raises(KeyError):
        await ask(app(Agent(), authenticate=authenticate), "POST", "/runs", headers=JSON, exchange=exchange)
    assert (exchange.status, exchange.json) == (500, {"error": "the server failed"})


async def test_a_user_who_would_be_another_each_time_says_so() -> None:
    with pytest.raises(TypeError, match="names a user"):
        await post(app(Agent(), authenticate=lambda request: object()), "/runs", {"message": "Hi"})


# Kind and size


@pytest.mark.parametrize("kind", [None, "text/plain", "application/x-www-form-urlencoded", "multipart/form-data"])
async def test_what_a_form_could_send_is_refused(kind: str | None) -> None:
    headers = {} if kind is None else {"content-type": kind}
    asked = await ask(app(Agent()), "POST", "/runs", headers=headers, exchange=Exchange(b'{"message": "Hi"}'))
    assert asked.status == 415


async def test_json_may_say_its_charset() -> None:
    headers = {"content-type": "Application/JSON; charset=utf-8"}
    asked = await ask(app(Agent(["Ho"])), "POST", "/runs", headers=headers, exchange=Exchange(b'{"message": "Hi"}'))
    assert asked.status == 200


async def test_half_a_character_makes_no_body_unread() -> None:
    agent = Agent(["Ho"])
    body = b'{"message": "a\\ud83d", "data": {"\\uDE00": ["\\ud83d\\ude00"]}}'
    assert (await ask(app(agent), "POST", "/runs", headers=JSON, exchange=Exchange(body))).status == 200
    assert agent.asked[0].conversation.history == (user("a\ufffd"),)
    assert agent.asked[0].data == {"\ufffd": ["\U0001f600"]}


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"{", 400),
        (b"\xff\xfe", 400),
        (b'{"message": "\xff"}', 400),
        (b'{"message": "\\ud800\xff"}', 400),
        (b'{"message": "\\ud800", "data": NaN}', 400),
        (b'{"message": NaN}', 400),
        (b'{"message": "Hi", "data": %b}' % (b"[" * 100_000), 400),
        (b'{"message": "Hi", "data": %b1%b}' % (b"[" * MAX_DEPTH, b"]" * MAX_DEPTH), 400),
        (b'{"message": "Hi", "data": %b1%b}' % (b"[" * (MAX_DEPTH - 2), b"]" * (MAX_DEPTH - 2)), 200),
        (b'{"message": ""}', 200),
    ],
)
async def test_a_body_that_cannot_be_read_is_refused(body: bytes, status: int) -> None:
    asked = await ask(app(Agent(["Ho"])), "POST", "/runs", headers=JSON, exchange=Exchange(body))
    assert asked.status == status
    assert status == 200 or asked.json["error"]


async def test_a_body_that_says_that_it_is_too_long_is_not_read() -> None:
    exchange = Exchange([b"x"] * 3)
    headers = {**JSON, "content-length": "101"}
    asked = await ask(app(Agent(), max_body_bytes=100), "POST", "/runs", headers=headers, exchange=exchange)
    assert asked.status == 413
    assert exchange.unread == 3


async def test_a_body_that_is_too_long_is_read_no_further() -> None:
    exchange = Exchange([b"x" * 60] * 10)
    asked = await ask(app(Agent(), max_body_bytes=100), "POST", "/runs", headers=JSON, exchange=exchange)
    assert asked.status == 413
    assert exchange.unread == 8


async def test_a_body_of_just_the_limit_is_read() -> None:
    body = json.dumps({"message": "Hi"}).encode()
    for limit, status in ((len(body), 200), (len(body) - 1, 413)):
        served = app(Agent(["Ho"]), max_body_bytes=limit)
        assert (await ask(served, "POST", "/runs", headers=JSON, exchange=Exchange(body))).status == status


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_body_that_does_not_come_is_waited_for_only_so_long(backend: str) -> None:
    async def main() -> None:
        exchange = Exchange([b'{"mess'], ends=False)
        began = anyio.current_time()
        asked = await ask(app(Agent()), "POST", "/runs", headers=JSON, exchange=exchange)
        assert asked.status == 408
        assert anyio.current_time() - began < 2 * BODY_SECONDS + 100

    in_ticks(backend, main)


async def test_a_client_that_leaves_in_its_body_disturbs_nobody(caplog: pytest.LogCaptureFixture) -> None:
    exchange = Exchange([b'{"mess'], ends=False)
    async with nothing_left(), asking(app(Agent()), "POST", "/runs", headers=JSON, exchange=exchange):
        exchange.leave()
    assert not caplog.records


# Routes


@pytest.mark.parametrize(
    ("method", "target", "status"),
    [
        ("GET", "/", 404),
        ("GET", "/runs", 405),
        ("POST", "/runs/", 404),
        ("PUT", "/runs", 405),
        ("DELETE", "/runs/a", 405),
        ("POST", "/runs/a/stream", 405),
        ("GET", "/runs/a/verdicts", 405),
        ("GET", "/runs/../runs", 404),
        ("OPTIONS", "/runs", 405),
    ],
)
async def test_what_is_not_there_is_told_as_json(method: str, target: str, status: int) -> None:
    asked = await ask(app(Agent()), method, target)
    assert asked.status == status
    assert asked.json["error"]
    assert status != 405 or asked.headers["allow"]
    assert asked.headers["cache-control"] == "no-store"
