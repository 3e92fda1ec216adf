"""The journal in memory."""

from streamkit.journal.memory import MemoryStore
from streamkit.testing import check_journal_store


async def test_it_keeps_the_rules_of_a_store() -> None:
    await check_journal_store(MemoryStore())
