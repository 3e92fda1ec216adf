"""Models by name."""

import pytest

from streamkit.errors import DefinitionError
from streamkit.local import open_model
from streamkit.testing import ScriptedModel


async def test_a_program_names_models_of_its_own() -> None:
    mine = ScriptedModel([])
    async with open_model("mine", mine=lambda: mine) as model:
        assert model is mine


async def test_a_provider_is_named_with_its_model() -> None:
    async with open_model("openai-chat:some-model") as model:
        assert model.name == "some-model"


async def test_a_name_that_means_no_model_is_told() -> None:
    with pytest.raises(DefinitionError, match="'nothing' is not a model: write local, mine, or PROVIDER:MODEL"):
        async with open_model("nothing", mine=ScriptedModel):
            pass
    with pytest.raises(DefinitionError, match="with one of these providers"):
        async with open_model("opnai:gpt-5"):
            pass
