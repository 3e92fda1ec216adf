"""Models by one name."""

import subprocess
import sys

import pytest

from streamkit.errors import DefinitionError
from streamkit.items import user
from streamkit.providers.named import CHAT_SERVERS, DIALECTS, model
from streamkit.turns import TurnRequest

from .loopback import answer, serve

STOP = b'data: {"choices":[{"index":0,"delta":{"content":"Hi"},"finish_reason":"stop"}]}\n\n'


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("openai:gpt-5", "gpt-5 at api.openai.com"),
        ("openai-responses:gpt-5", "gpt-5 at api.openai.com"),
        ("openai-chat:gpt-5", "gpt-5 at api.openai.com"),
        ("anthropic:claude", "claude at api.anthropic.com"),
        ("gemini:gemini-3-pro", "gemini-3-pro at generativelanguage.googleapis.com"),
        ("google:gemini-3-pro", "gemini-3-pro at generativelanguage.googleapis.com"),
        ("ollama:llama3.2:3b", "llama3.2:3b at localhost"),
        ("deepseek:deepseek-chat", "deepseek-chat at api.deepseek.com"),
        ("groq:openai/gpt-oss-20b", "openai/gpt-oss-20b at api.groq.com"),
        ("mistral:magistral", "magistral at api.mistral.ai"),
        ("openrouter:some/model:free", "some/model:free at openrouter.ai"),
        ("together:some/model", "some/model at api.together.ai"),
        ("xai:grok", "grok at api.x.ai"),
    ],
)
def test_a_name_says_provider_and_model(name: str, shown: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OLLAMA_HOST", raising=False)
    made = model(name)
    assert made.name == name.partition(":")[2]
    assert repr(made) == f"<HttpModel {shown}>"


@pytest.mark.parametrize("name", ["gpt-5", "", "openai", "openai:", ":gpt-5", "llama3.2:3b", "OpenAI:gpt-5"])
def test_a_name_without_a_known_provider_is_told_which_are_known(name: str) -> None:
    with pytest.raises(DefinitionError, match="is not a model: write PROVIDER:MODEL") as raised:
        model(name)
    for provider in [*DIALECTS, *CHAT_SERVERS]:
        assert provider in str(raised.value)


async def test_options_go_to_the_factory() -> None:
    async with serve(answer(STOP)) as server:
        made = model("openai-chat:m", base_url=server.url, api_key="a-key", headers={"x-team": "blue"})
        assert (await made.stream_turn(TurnRequest((user("hi"),)))).text == "Hi"
    headers = server.asked[0].headers
    assert (headers["authorization"], headers["x-team"]) == ("Bearer a-key", "blue")


@pytest.mark.parametrize("provider", CHAT_SERVERS)
async def test_a_server_gets_its_own_key_and_no_other(provider: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "another-key")
    monkeypatch.delenv(CHAT_SERVERS[provider].key_variable, raising=False)
    async with serve(answer(STOP), answer(STOP)) as server:
        made = model(f"{provider}:m", base_url=server.url)
        await made.stream_turn(TurnRequest((user("hi"),)))
        monkeypatch.setenv(CHAT_SERVERS[provider].key_variable, "its-own-key")
        await made.stream_turn(TurnRequest((user("hi"),)))
    assert [asked.headers.get("authorization") for asked in server.asked] == [None, "Bearer its-own-key"]


async def test_a_server_is_asked_in_its_own_way_wherever_it_is() -> None:
    async with serve(answer(STOP), answer(STOP)) as server:
        for provider in ("mistral", "groq"):
            await model(f"{provider}:m", base_url=server.url).stream_turn(TurnRequest((user("hi"),)))
    assert ["stream_options" in asked.body for asked in server.asked] == [False, True]


def test_no_dialect_is_imported_before_it_is_asked_for() -> None:
    code = (
        "import sys, streamkit.providers.named as named\n"
        "print(sorted(set(sys.modules) & {f'streamkit.providers.{name}' for name in named.DIALECTS.values()}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
