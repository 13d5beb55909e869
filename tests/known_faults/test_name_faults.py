"""Names: faults of other tools."""

from __future__ import annotations

from synthscape.labels.raven import raven_tables
from synthscape.labels.tables import Catalogue, event_table
from tests.hand_built import SPECIES, hand_batch, hand_plan, make_backgrounds, make_bank


def test_percent_signs_in_names_are_not_decoded(tmp_path):
    """``%20`` in a name is three characters, in tables and exports (AnimalSpeak-PseudoVox keys)."""
    name = "Corvus%20corax 50%"
    bank = make_bank(tmp_path / "bank", (name, *SPECIES[1:]))
    catalogue = Catalogue(bank, make_backgrounds(tmp_path / "backgrounds"), [name])
    table = event_table(hand_batch(hand_plan(({}, [{"speaker": 0}]))), catalogue)
    (row,) = table.to_pylist()
    ((_, text),) = raven_tables(table, ["s000000000"], 8000)

    assert (row["class"], row["species"], row["speaker"]) == (name, name, f"{name}_1")
    assert row["recording_id"] == f"rec-{name}-0"
    assert text.splitlines()[1].split("\t")[-1] == name
