"""What all tests share: both backends, and hypothesis without a clock."""

import pytest
from hypothesis import HealthCheck, settings

# How long an example takes says how busy the machine is. All else is as hypothesis has it, here and in CI.
settings.register_profile("streamkit", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("streamkit")


@pytest.fixture(scope="module", params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> object:
    """Named here, so that a backend which is not installed fails instead of being left out."""
    return request.param
