"""From nothing to a labelled dataset: a bank, a few scenes in memory, the same scenes in a folder."""

import synthscape as ss

# Calls and backgrounds: synthetic ones here; `synthscape bank build` makes stores of your own recordings.
calls, backgrounds = ss.make_demo_bank("banks/demo")
spec = ss.load_spec(
    "strong_detection",
    ["items=20", f"bank={calls}", f"backgrounds={backgrounds}", "output.dir=out/quickstart"],
)

# In memory: any scene by its number.
scenes = ss.SceneGenerator(spec).render([0, 1, 2], stems=True)
print("audio", scenes.audio.shape, scenes.audio.dtype)
print(scenes.events[["scene_id", "onset_s", "offset_s", "low_hz", "high_hz", "species", "call_type", "snr_band_db"]])

# On disk: Parquet with FLAC in it, as datasets.load_dataset reads it. The same call again goes on where it stopped.
report = ss.render(spec, workers=2)
data = ss.open_dataset(report.path)
print(data.scenes[["scene_id", "duration_s", "n_events", "max_polyphony", "licences"]])
print("same samples:", data.scenes["pcm_hash"][0] == scenes.scenes["pcm_hash"][0])
print("first scene:", data.audio("s000000000").shape, "of", len(data), "in", data.path)

# A question: example clips, a scene, and which of the sounds are heard in it.
spec = ss.load_spec("few_shot_detection", [f"bank={calls}", f"backgrounds={backgrounds}"])
asked = ss.SceneGenerator(spec).render([0])
print(asked.items[["item_id", "scene_ids", "answer"]])
print(asked.chat[0]["messages"][0]["content"])
