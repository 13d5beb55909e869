"""Every key of a spec: its type, its default, what it may hold and what it means."""

# ruff: noqa: RUF009  key_field gives a dataclasses.field

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, Final

from synthscape.spec.distributions import Distribution
from synthscape.spec.fields import REQUIRED, Draw, Flag, Lines, Names, Number, Rule, Text, Whole, Word, key_field

EVENT_DRAW: Final = ("event", "scene", "class")
MOST_EVENTS: Final = 4096
SCENE_TASKS: Final = ("strong_detection", "detect_diarize")  # an item is a scene
QUESTION_TASKS: Final = (  # an item is a question with its scenes and clips
    "few_shot_detection",
    "few_shot_scenes",
    "call_type_mcq",
    "call_type_binary",
    "call_type_same_different",
    "call_type_matching",
    "species_matching",
    "counting",
)
CHOICE_TASKS: Final = (  # questions about single clips
    "call_type_mcq",
    "call_type_same_different",
    "call_type_matching",
    "species_matching",
)
TIMED_TASKS: Final = ("call_type_binary", "counting")  # that `question.with_times` goes with
TASKS: Final = SCENE_TASKS + QUESTION_TASKS
MOST_CALLERS: Final = 64
OUTSIDE_FINGERPRINT: Final = (
    ("output",),
    ("engine",),
    ("items",),
    ("bank",),
    ("backgrounds",),
    ("events", "propagation", "impulses"),
    ("community", "table"),
)


@dataclass(frozen=True, kw_only=True)
class Classes:
    """Which classes of calls are drawn, and how often."""

    by: str = key_field(
        Word(
            "what makes a class: a column of the bank; or type: its call_type where that is known, else its clusters "
            "of both sizes",
            "species",
            ("species", "call_type", "cluster", "type"),
        )
    )
    column: str | None = key_field(
        Text("with by: cluster or type, the bank's column to use (null: cluster)", None, "a cluster column"), null=True
    )
    coarse: str | None = key_field(
        Text(
            "with by: type, a column of larger clusters that calls of one type agree in too (null: none)",
            None,
            "a cluster column",
        ),
        null=True,
    )
    balance: str = key_field(
        Word(
            "how likely a class is: all alike, by the root of its number of clips, or by that number",
            "sqrt",
            ("uniform", "sqrt", "count"),
        )
    )
    per_scene: Distribution = key_field(
        Draw("number of classes in a scene", {"uniform_int": [1, 4]}, 1, MOST_EVENTS, whole=True)
    )
    include: tuple[str, ...] | None = key_field(
        Names("only these classes (null: all)", None, may_be_empty=False), null=True
    )
    min_clips: int = key_field(Whole("classes with fewer clips are left out", 1, 1, 2**31 - 1))


@dataclass(frozen=True, kw_only=True)
class Snr:
    """How loud events are against the background."""

    reference: str = key_field(
        Word(
            "what an event is compared with: the background in the event's own band and time, in its time, "
            "or over the whole scene; or loudness by BS.1770, over the whole scene too",
            "band",
            ("band", "local", "scene", "loudness"),
        )
    )
    db: Distribution = key_field(
        Draw(
            "SNR in dB, of amplitudes 10 ** (db / 20); with level.mode: source it is not drawn",
            {"mixture": [{"normal": [-5, 4]}, {"normal": [5, 4]}], "clip": [-20, 15]},
            -100,
            100,
            per=EVENT_DRAW,
        )
    )
    subtract_noise: bool = key_field(Flag("do not count a clip's own noise as signal", True))
    measure_band: bool = key_field(
        Flag("measure the SNR in each event's band; without it snr_band_db and audible are null", True)
    )
    audible_db: float = key_field(
        Number("an event is audible from this band SNR in dB on, over at least 20 ms", 0, -100, 100)
    )


@dataclass(frozen=True, kw_only=True)
class Level:
    """What decides how loud events are: a drawn SNR, or how loud the animal is and how far away."""

    mode: str = key_field(
        Word(
            "draw the SNR, or draw source level and distance, of which the SNR is an outcome", "snr", ("snr", "source")
        )
    )
    source_level_db: Distribution | None = key_field(
        Draw(
            "with mode: source: RMS level of a call over its active part, 1 m from the animal, "
            "dB re 20 uPa in air, 1 uPa in water",
            None,
            -100,
            300,
            per=EVENT_DRAW,
        ),
        null=True,
    )


@dataclass(frozen=True, kw_only=True)
class Tail:
    """Reverberation made up of decaying noise."""

    rt60_s: Distribution | None = key_field(
        Draw("time in which it decays by 60 dB, s (null: none)", None, 0.01, 60, per=EVENT_DRAW), null=True
    )
    direct_to_reverberant_db: Distribution = key_field(
        Draw("energy of the direct sound against that of the tail, dB", {"uniform": [0, 15]}, -60, 60, per=EVENT_DRAW)
    )


@dataclass(frozen=True, kw_only=True)
class Air:
    """Air that sound is absorbed in (ISO 9613-1)."""

    temperature_c: float = key_field(Number("temperature, degrees Celsius", 20, -20, 50))
    humidity_percent: float = key_field(Number("relative humidity, %", 70, 10, 100))
    pressure_kpa: float = key_field(Number("pressure, kPa", 101.325, 50, 200))


@dataclass(frozen=True, kw_only=True)
class Water:
    """Water that sound is absorbed in (Ainslie and McColm 1998)."""

    temperature_c: float = key_field(Number("temperature, degrees Celsius", 10, -6, 35))
    salinity_ppt: float = key_field(Number("salinity, parts per thousand", 35, 5, 50))
    depth_m: float = key_field(Number("depth, m", 10, 0, 7000))
    ph: float = key_field(Number("pH", 8, 7.7, 8.3))


@dataclass(frozen=True, kw_only=True)
class Propagation:
    """What happens to calls on their way to the microphone."""

    probability: float = key_field(Number("probability that an event is propagated, else it is dry", 1, 0, 1))
    distance_m: Distribution | None = key_field(
        Draw(
            "distance of the animal, m: absorbs; with level.mode: source it attenuates too (null: none)",
            None,
            0.1,
            1e6,
            per=EVENT_DRAW,
        ),
        null=True,
    )
    impulses: str | None = key_field(
        Text("folder of a clip store with impulse responses: a room for each scene (null: none)", None, "a folder"),
        null=True,
    )
    tail: Tail = field(default_factory=Tail)
    air: Air = field(default_factory=Air)
    water: Water = field(default_factory=Water)


@dataclass(frozen=True, kw_only=True)
class Overlap:
    """Which events may sound together."""

    same_class: str = key_field(Word("whether two events of one class may overlap", "forbid", ("forbid", "allow")))
    max_polyphony: int | None = key_field(
        Whole("most events at one time (null: no limit)", 4, 1, MOST_EVENTS), null=True
    )
    min_gap_s: float = key_field(Number("silence between two events of one class, s", 0, 0, 3600))


@dataclass(frozen=True, kw_only=True)
class Bout:
    """With process: bout, series of calls of one caller; events.count or events.rate is their number."""

    calls: Distribution = key_field(
        Draw("number of calls in a bout", {"uniform_int": [3, 8]}, 1, MOST_EVENTS, per=EVENT_DRAW, whole=True)
    )
    interval_s: Distribution = key_field(
        Draw(
            "inter-call interval, from the end of a call to the onset of the bout's next, of active parts, s",
            {"normal": [{"uniform": [0.15, 0.6], "per": "class"}, 0.03], "clip": [0.02, 2]},
            0,
            3600,
            per=EVENT_DRAW,
        )
    )


@dataclass(frozen=True, kw_only=True)
class Chorus:
    """With process: chorus, several callers of each class, all through the scene."""

    callers: Distribution = key_field(
        Draw(
            "number of callers of a class", {"uniform_int": [2, 5]}, 1, MOST_CALLERS, per=("class", "scene"), whole=True
        )
    )
    duty: Distribution = key_field(
        Draw(
            "share of the time that each caller is active; per event draws one for each caller",
            {"uniform": [0.1, 0.4]},
            0,
            1,
            per=("class", "scene", "event"),
            above_low=True,
        )
    )
    synchrony: Distribution = key_field(
        Draw(
            "0: callers call independently; 1: they begin together, once in a common period",
            0,
            0,
            1,
            per=("class", "scene"),
        )
    )


@dataclass(frozen=True, kw_only=True)
class Antiphony:
    """With process: antiphony, two callers that take turns."""

    partner: str = key_field(
        Word(
            "the one that answers is of the caller's class, or of another class of the scene",
            "same_class",
            ("same_class", "other_class"),
        )
    )
    exchanges: Distribution | None = key_field(
        Draw(
            "number of exchanges, a call and its answer (null: from before the scene's start to its end)",
            None,
            1,
            MOST_EVENTS // 2,
            per=("class", "scene"),
            whole=True,
        ),
        null=True,
    )
    latency_s: Distribution = key_field(
        Draw(
            "response latency, from the end of a call to the onset of its answer, of active parts, s",
            {"truncnorm": [0.4, 0.2, 0.05, 2]},
            0,
            3600,
            per=EVENT_DRAW,
        )
    )
    overlap_probability: float = key_field(
        Number("probability that an answer begins before the call it answers has ended", 0, 0, 1)
    )
    pause_s: Distribution = key_field(
        Draw(
            "from the end of an exchange to the onset of the next call, of active parts, s",
            {"uniform": [0.5, 3]},
            0,
            3600,
            per=EVENT_DRAW,
        )
    )


@dataclass(frozen=True, kw_only=True)
class Events:
    """How many calls a scene has, and how each is played."""

    count: Distribution | None = key_field(
        Draw("number of events; with process: bout, of bouts", None, 0, math.inf, per=("scene", "class"), whole=True),
        null=True,
    )
    rate: Distribution | None = key_field(
        Draw(
            "events (with process: bout, bouts) per second; their number is Poisson",
            None,
            0,
            1e6,
            per=("scene", "class"),
        ),
        null=True,
    )
    process: str | None = key_field(
        Word(
            "when animals call: one call after the other with gaps drawn from gap_s, in bouts, in choruses, "
            "or two taking turns (null: at any time)",
            None,
            ("gaps", "bout", "chorus", "antiphony"),
        ),
        null=True,
    )
    gap_s: Distribution | None = key_field(
        Draw(
            "with process: gaps, the silence between events in s; draws under 0 count as 0",
            None,
            -math.inf,
            math.inf,
            per=EVENT_DRAW,
            unbounded=True,
        ),
        null=True,
    )
    bout: Bout = field(default_factory=Bout)
    chorus: Chorus = field(default_factory=Chorus)
    antiphony: Antiphony = field(default_factory=Antiphony)
    group: str = key_field(
        Word(
            "place single calls, or all calls of a track with their spacing and relative level",
            "none",
            ("none", "track"),
        )
    )
    max_per_scene: int = key_field(
        Whole("most events in a scene; what is drawn beyond it is dropped and counted", 256, 1, MOST_EVENTS)
    )
    snr: Snr = field(default_factory=Snr)
    level: Level = field(default_factory=Level)
    propagation: Propagation = field(default_factory=Propagation)
    resample: Distribution = key_field(
        Draw(
            "play a call r times as long and 1/r as high; listed numbers are exact, others go to the nearest "
            "64th octave",
            1,
            0.25,
            4,
            per=EVENT_DRAW,
            ratio=True,
        )
    )
    resample_infeasible: str = key_field(
        Word(
            "a ratio that moves over a fifth of a call's energy past the highest frequency: draw again, "
            "or play it and flag the event as altered",
            "redraw",
            ("redraw", "flag"),
        )
    )
    reverse: Distribution = key_field(
        Draw(
            "probability of playing a call backwards; {bernoulli: p, per: class} decides for a whole class",
            0,
            0,
            1,
            per=EVENT_DRAW,
            plain_number="bernoulli",
            only="bernoulli",
        )
    )
    fade_s: float = key_field(
        Number("fade at both ends of a clip, s; shorter where the call itself would fade", 0.01, 0, 10)
    )
    fade_shape: str = key_field(Word("shape of the fades", "raised_cosine", ("raised_cosine", "linear")))
    overlap: Overlap = field(default_factory=Overlap)
    edges: str = key_field(
        Word("keep calls inside the scene, or let its edges cut them", "inside", ("inside", "truncate"))
    )


@dataclass(frozen=True, kw_only=True)
class Mix:
    """A second background."""

    probability: float = key_field(Number("probability of a second background in a scene", 0, 0, 1))
    ratio_db: Distribution = key_field(
        Draw("level of the second against the first, dB (0: the same RMS)", 0, -100, 100)
    )


@dataclass(frozen=True, kw_only=True)
class Noise:
    """Coloured noise in place of background files."""

    probability: float = key_field(
        Number("probability, for each background of a scene, that it is noise instead of a file", 0, 0, 1)
    )
    slope_db_per_octave: Distribution = key_field(
        Draw("slope of its power spectrum (0: white, -3: pink, -6: brown)", {"uniform": [-6, 0]}, -12, 12)
    )


@dataclass(frozen=True, kw_only=True)
class Background:
    """What is heard behind the events."""

    mix: Mix = field(default_factory=Mix)
    noise: Noise = field(default_factory=Noise)
    level_dbfs: Distribution | None = key_field(
        Draw(
            "RMS of the mixed background, dBFS (null, and level_lufs too: as recorded)",
            {"uniform": [-50, -30]},
            -60,
            0,
            why="16-bit audio keeps too little of a background under -60 dBFS",
        ),
        null=True,
    )
    level_lufs: Distribution | None = key_field(
        Draw(
            "loudness of the mixed background by BS.1770, LUFS, in place of level_dbfs",
            None,
            -60,
            0,
            why="16-bit audio keeps too little of a background under -60 LUFS",
        ),
        null=True,
    )
    spl_db: Distribution | None = key_field(
        Draw(
            "with events.level.mode: source: what RMS level the mixed background had in nature, "
            "dB re 20 uPa in air, 1 uPa in water",
            None,
            -100,
            300,
        ),
        null=True,
    )
    resample: Distribution = key_field(
        Draw("play a background r times as long and 1/r as high", 1, 0.25, 4, ratio=True)
    )
    crossfade_s: float = key_field(Number("cross-fade where a short background is looped, s", 0.25, 0, 60))
    max_animal_score: float | None = key_field(
        Number("leave out backgrounds with an animal_score over this (null: use all)", None, -1e6, 1e6), null=True
    )


@dataclass(frozen=True, kw_only=True)
class Community:
    """Which species are heard where and when: weights from a table, in place of classes.balance."""

    table: str | None = key_field(
        Text(
            "CSV or Parquet with columns species (or class) and weight, and if need be habitat, month (1-12), "
            "hour (0-23); relative to where you are (null: none)",
            None,
            "a CSV or Parquet file",
        ),
        null=True,
    )
    habitat: str | None = key_field(
        Text("use rows of this habitat and rows without one (null: all rows)", None, "a habitat"), null=True
    )
    month: Distribution | None = key_field(
        Draw("month of a scene: rows of this month and rows without one (null: all rows)", None, 1, 12, whole=True),
        null=True,
    )
    hour: Distribution | None = key_field(
        Draw("hour of a scene: rows of this hour and rows without one (null: all rows)", None, 0, 23, whole=True),
        null=True,
    )


@dataclass(frozen=True, kw_only=True)
class Negatives:
    """What answers are told apart from: whole weights of the ways to choose types, exact within a block of items."""

    within_species: int = key_field(Whole("other call types of the same species", 2, 0, 1000))
    same_genus: int = key_field(Whole("types of other species of one genus", 0, 0, 1000))
    same_family: int = key_field(Whole("types of other genera of one family", 0, 0, 1000))
    cross_species: int = key_field(Whole("types of different species", 2, 0, 1000))
    random: int = key_field(Whole("any types", 1, 0, 1000))


@dataclass(frozen=True, kw_only=True)
class Question:
    """What is asked, in tasks whose item is a question."""

    options: int = key_field(Whole("options of a choice", 4, 2, 8))
    candidates: Distribution = key_field(
        Draw("sounds that are asked about in a few-shot item", {"uniform_int": [1, 4]}, 1, 8, whole=True)
    )
    examples: Distribution = key_field(
        Draw("example clips of each sound that is asked about", {"uniform_int": [1, 3]}, 1, 5, whole=True)
    )
    none_share: float = key_field(
        Number("exact share of items whose answer is none of what is asked about", 0, 0, 0.9, decimals=2)
    )
    negatives: Negatives = field(default_factory=Negatives)
    matched_share: float = key_field(
        Number("exact share of items whose options all match in duration and frequency", 0, 0, 1, decimals=2)
    )
    distractors: Distribution = key_field(
        Draw("calls in a scene that are not asked about", {"uniform_int": [0, 3]}, 0, 64, whole=True)
    )
    patches: Distribution = key_field(
        Draw(
            "call-free stretches of recordings pasted into a scene as decoys",
            {"poisson": 0.5, "clip": [0, 4]},
            0,
            64,
            whole=True,
        )
    )
    most: int = key_field(Whole("with task: counting, the largest answer; 0 is one too", 6, 1, 32))
    background_clip: float = key_field(
        Number("probability that an item has a clip of the scene's background", 0.5, 0, 1)
    )
    domain_shift: float = key_field(
        Number("probability that the query lies over other background files than the examples", 0.5, 0, 1)
    )
    with_times: bool = key_field(Flag("ask when, too", False))
    support_duration: Distribution = key_field(
        Draw("with task: few_shot_scenes, length of the support scene, s", 30, 0, 1e6, above_low=True)
    )
    support_calls: Distribution = key_field(
        Draw(
            "with task: few_shot_scenes, audible calls of the type in the support scene",
            {"uniform_int": [5, 8]},
            1,
            256,
            whole=True,
        )
    )
    apart: tuple[str, ...] = key_field(
        Names("what examples and query never share: recording, recordist, site", ["recording", "recordist", "site"])
    )
    duration_bins: int = key_field(
        Whole("a call that stands in for another is of its duration bin, of so many equally filled ones", 10, 1, 100)
    )


@dataclass(frozen=True, kw_only=True)
class Clips:
    """How single clips of a question (examples, and the query of a choice) are made."""

    duration: Distribution | None = key_field(
        Draw(
            "length of a clip, s, the call anywhere in it (null: as the bank's clip is played)",
            3,
            0,
            60,
            above_low=True,
        ),
        null=True,
    )
    background: bool = key_field(Flag("lay clips over a background, as scenes are", True))
    snr_db: Distribution = key_field(
        Draw("with background: SNR in dB, by events.snr.reference", {"uniform": [5, 20]}, -100, 100)
    )
    level_dbfs: Distribution = key_field(
        Draw("without background: RMS of the call over its active part, dBFS", {"uniform": [-35, -20]}, -60, 0)
    )


@dataclass(frozen=True, kw_only=True)
class Wording:
    """How items are put into words for a language model; nothing of it changes the audio."""

    audio: str = key_field(
        Text("what stands in the text for each audio file", "<Audio><AudioHere></Audio>", "a placeholder")
    )
    questions: tuple[str, ...] | None = key_field(
        Lines("paraphrases of the question, one drawn for each item (null: the task's own; docs/tasks.md)", None),
        null=True,
    )
    yes: str = key_field(Text("the answer yes", "Yes"))
    no: str = key_field(Text("the answer no", "No"))
    none: str = key_field(Text("the answer that none of what is asked about is there", "None"))
    dataset_name: str = key_field(Text("dataset_name of the rows", "synthscape"))


@dataclass(frozen=True, kw_only=True)
class Licences:
    """Which clips and backgrounds may be used."""

    allow: tuple[str, ...] | None = key_field(
        Names("only these licences (null: all that are not denied)", None, may_be_empty=False), null=True
    )
    deny: tuple[str, ...] = key_field(Names("never these licences", []))
    unknown: str = key_field(Word("what to do with recordings whose licence is not known", "allow", ("allow", "deny")))


@dataclass(frozen=True, kw_only=True)
class Output:
    """Where and how the dataset is written; not part of the fingerprint."""

    dir: str = key_field(Text("folder of the dataset, or its URL", "out", "a folder"))
    format: str = key_field(
        Word(
            "how audio is stored: with all labels in Parquet, as tars of audio and JSON, or as files in folders",
            "parquet",
            ("parquet", "webdataset", "folder"),
        )
    )
    audio: str = key_field(Word("16-bit audio, or none: tables only", "flac", ("flac", "wav", "none")))
    items_per_shard: int = key_field(Whole("items rendered and receipted together", 512, 1, 1_000_000))
    stems: bool = key_field(Flag("write each event and the background as float audio too", False))
    raven: bool = key_field(Flag("write a Raven selection table beside each audio file", False))
    rttm: bool = key_field(Flag("write an RTTM file of the callers beside each audio file", False))
    dcase: bool = key_field(Flag("with task: few_shot_scenes, write a DCASE CSV beside each audio file", False))
    chat: bool = key_field(Flag("write items and their wording as rows for language models", True))
    control: str = key_field(
        Word(
            "the same questions with noise of the same length and level for audio, or without audio: "
            "what can be answered then is not heard",
            "none",
            ("none", "noise", "text"),
        )
    )


@dataclass(frozen=True, kw_only=True)
class Spec:
    """A dataset, but for what its stores hold.

    Made by :func:`synthscape.spec.load_spec`, which checks it. Two specs are equal if they ask for the same, however
    they were written.
    """

    task: str = key_field(Word("what an item is", "strong_detection", TASKS))
    seed: int = key_field(Whole("another seed, another dataset", 0, 0, 2**64 - 1))
    items: int = key_field(Whole("number of items; more of them extend a dataset", 1000, 1, 2**40))
    sample_rate: int = key_field(Whole("Hz; the stores must have it too", 16000, 1000, 1_000_000))
    duration: Distribution = key_field(Draw("length of a scene, s", 10, 0, 1e6, above_low=True))
    bank: str = key_field(
        Text("folder of the clip store with the calls; relative to where you are", REQUIRED, "a folder")
    )
    backgrounds: str | None = key_field(
        Text(
            "folder of the clip store with the backgrounds; relative to where you are (null: all are noise)",
            REQUIRED,
            "a folder",
        ),
        null=True,
    )
    classes: Classes = field(default_factory=Classes)
    community: Community = field(default_factory=Community)
    events: Events = field(default_factory=Events)
    empty_share: float = key_field(
        Number("exact share of scenes without events; all others have one or more", 0, 0, 1, decimals=6)
    )
    background: Background = field(default_factory=Background)
    question: Question = field(default_factory=Question)
    clips: Clips = field(default_factory=Clips)
    wording: Wording = field(default_factory=Wording)
    licences: Licences = field(default_factory=Licences)
    output: Output = field(default_factory=Output)
    engine: str = key_field(
        Word(
            "what renders: this process, threads of this machine, or a Ray cluster",
            "threads",
            ("inline", "threads", "ray"),
        )
    )

    def plain(self, *, explicit: bool = False) -> dict[str, Any]:
        """The spec as mappings, lists, numbers and text; ``explicit`` writes out defaults of ``per`` too."""
        return _plain(self, explicit)

    def fingerprint_content(self) -> dict[str, Any]:
        """What makes the dataset: without ``output``, ``items`` and all paths, in one canonical form."""
        content = self.plain(explicit=True)
        for *around, name in OUTSIDE_FINGERPRINT:
            section = content
            for outer in around:
                section = section[outer]
            del section[name]
        return content

    def to_yaml(self) -> str:
        """YAML with every key, which loads back as an equal spec."""
        from synthscape.spec.yaml_text import write_yaml

        return write_yaml(self.plain())


def _plain(section: Any, explicit: bool) -> dict[str, Any]:
    plain: dict[str, Any] = {}
    for entry in fields(section):
        value = getattr(section, entry.name)
        rule: Rule | None = entry.metadata.get("rule")
        plain[entry.name] = _plain(value, explicit) if rule is None else rule.plain(value, explicit=explicit)
    return plain


SECTIONS: Final[dict[type, dict[str, type]]] = {
    Spec: {
        "classes": Classes,
        "community": Community,
        "events": Events,
        "background": Background,
        "question": Question,
        "clips": Clips,
        "wording": Wording,
        "licences": Licences,
        "output": Output,
    },
    Events: {
        "bout": Bout,
        "chorus": Chorus,
        "antiphony": Antiphony,
        "snr": Snr,
        "level": Level,
        "propagation": Propagation,
        "overlap": Overlap,
    },
    Question: {"negatives": Negatives},
    Propagation: {"tail": Tail, "air": Air, "water": Water},
    Background: {"mix": Mix, "noise": Noise},
}


def section_keys(section: type) -> dict[str, Rule | type]:
    """The keys of a section: the rule of each value, or the class of an inner section."""
    if not is_dataclass(section):
        raise TypeError(f"{section!r} is no section of a spec")
    inner = SECTIONS.get(section, {})
    return {entry.name: inner.get(entry.name) or entry.metadata["rule"] for entry in fields(section)}
