"""Synthetic soundscapes of animal sound, with exact labels.

::

    import synthscape as ss

    spec = ss.load_spec("strong_detection", ["items=100"])  # a path or a shipped name, with overrides
    scenes = ss.SceneGenerator(spec).render(range(8))       # scenes.audio, .events, .scenes, .facts, .items, .chat
    ss.render(spec, workers=2)                              # to spec.output.dir; the same call resumes
    data = ss.open_dataset("out")                           # data.scenes, data.events, data.audio(scene_id)

============================  ==========================================================================
``load_spec``, ``Spec``       what to make: a YAML file, checked
``ClipStore``                 calls or backgrounds in a folder, memory-mapped
``make_demo_bank``            a small bank of synthetic voices and backgrounds
``SceneGenerator``, ``Scenes``  scenes by number, in memory
``render``, ``RenderReport``  scenes to a dataset in a folder; ``render_shard``: a part of it
``open_dataset``, ``Dataset``  reading one
``SynthscapeError``           base of all errors: ``SpecError``, ``StoreError``, ``AudioError``, ``PlanError``,
                              ``MixError``, ``DatasetError``
============================  ==========================================================================
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from synthscape.bank.demo import make_demo_bank
    from synthscape.bank.store import ClipStore
    from synthscape.errors import (
        AudioError,
        DatasetError,
        MixError,
        PlanError,
        SpecError,
        StoreError,
        SynthscapeError,
    )
    from synthscape.output.dataset import Dataset, open_dataset
    from synthscape.scale.render import RenderReport, render, render_shard
    from synthscape.spec import Spec, load_spec
    from synthscape.tasks.generator import SceneGenerator
    from synthscape.tasks.scenes import Scenes

    __version__: str

__all__ = [
    "AudioError",
    "ClipStore",
    "Dataset",
    "DatasetError",
    "MixError",
    "PlanError",
    "RenderReport",
    "SceneGenerator",
    "Scenes",
    "Spec",
    "SpecError",
    "StoreError",
    "SynthscapeError",
    "load_spec",
    "make_demo_bank",
    "open_dataset",
    "render",
    "render_shard",
]

_HOME = {
    "ClipStore": "synthscape.bank.store",
    "Dataset": "synthscape.output.dataset",
    "RenderReport": "synthscape.scale.render",
    "SceneGenerator": "synthscape.tasks.generator",
    "Scenes": "synthscape.tasks.scenes",
    "Spec": "synthscape.spec",
    "load_spec": "synthscape.spec",
    "make_demo_bank": "synthscape.bank.demo",
    "open_dataset": "synthscape.output.dataset",
    "render": "synthscape.scale.render",
    "render_shard": "synthscape.scale.render",
}


def __getattr__(name: str) -> Any:
    # Nothing is imported before it is used, so that the command line answers at once.
    from importlib import import_module

    if name == "__version__":
        from importlib.metadata import version

        return version("synthscape")
    if name in __all__:
        return getattr(import_module(_HOME.get(name, "synthscape.errors")), name)
    raise AttributeError(f"module 'synthscape' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
