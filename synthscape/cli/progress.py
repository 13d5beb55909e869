"""What a render shows while it goes on: a bar at a terminal, else a line now and then, or JSON lines."""

from __future__ import annotations

import sys
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import typer

from synthscape.cli.stopping import Stopped
from synthscape.cli.words import said
from synthscape.errors import SynthscapeError

if TYPE_CHECKING:
    from rich.progress import TaskID

    from synthscape.scale.progress import Step
    from synthscape.spec import Spec

_WINDOW_S: Final = 60.0  # of which rates are told
_FIRST_LINE_S: Final = 10.0
_RARER: Final = 0.1  # lines come more rarely the longer it takes: after a tenth of the time more
_RAREST_S: Final = 600.0
_EVENT_S: Final = 1.0


class Meter:
    """What is done of a render, and how fast; what was there before is done, and counts in no rate.

    Attributes:
        items: asked for.
        shards: how many they are in.
        done: items done, delivered or failed.
        kept: those of them that were there before, or that others made; None until that is known.
        failed: those of them that failed.
        finished: items of shards that exist.
    """

    def __init__(self, spec: Spec, shards: Collection[int] | None = None):
        self._all_items, self._per_shard = spec.items, spec.output.items_per_shard
        n_shards = -(-self._all_items // self._per_shard)
        self.items = self._all_items if shards is None else sum(map(self.shard_items, set(shards)))
        self.shards = n_shards if shards is None else len(set(shards))
        self.done = self.failed = self.finished = 0
        self.kept: int | None = None
        self._scenes, self._audio_s = 0, 0.0
        self._marks = deque([(time.monotonic(), 0, 0, 0.0)])

    def shard_items(self, shard: int) -> int:
        """How many items a shard holds."""
        return max(0, min(self._per_shard, self._all_items - shard * self._per_shard))

    def add(self, step: Step) -> None:
        """Count what was done."""
        self.done += step.items
        self.failed += step.failed
        if step.kept:
            if self.kept is None:  # the first tells of whole shards; later ones are followed by their shard
                self.finished += step.items
            self.kept = (self.kept or 0) + step.items
            return
        self._scenes += step.scenes
        self._audio_s += step.audio_s
        if step.shard is not None:
            self.finished += self.shard_items(step.shard)
        now = time.monotonic()
        if now - self._marks[-1][0] >= 1:
            self._marks.append((now, self.done - (self.kept or 0), self._scenes, self._audio_s))
        while len(self._marks) > 2 and now - self._marks[1][0] > _WINDOW_S:
            self._marks.popleft()

    def rates(self) -> tuple[float, float, float]:
        """Items, scenes, and seconds of audio in a second of the last minute."""
        begun, items, scenes, audio_s = self._marks[0]
        seconds = max(time.monotonic() - begun, 1e-3)
        new = self.done - (self.kept or 0) - items
        return new / seconds, (self._scenes - scenes) / seconds, (self._audio_s - audio_s) / seconds

    def left_s(self) -> float | None:
        """Seconds until all is done, at this rate."""
        rate = self.rates()[0]
        return (self.items - self.done) / rate if rate else None

    def words(self) -> list[str]:
        """Rates, failures and time left."""
        _, scenes, real_time = self.rates()
        left = self.left_s()
        return [
            f"{scenes:.3g} scenes/s" if scenes < 100 else f"{scenes:.0f} scenes/s",
            f"{real_time:.0f} x real time",
            f"{self.failed} failed",
            *([] if left is None else [f"{_duration(left)} left"]),
        ]


class _View(ABC):
    """Shows a meter's progress."""

    def __init__(self, meter: Meter):
        self.meter = meter

    def __call__(self, step: Step) -> None:
        self.meter.add(step)
        self.show(step)

    @abstractmethod
    def show(self, step: Step) -> None:
        """Show what the meter says after this step."""


class _Lines(_View):
    """A line on stderr now and then."""

    def __init__(self, meter: Meter):
        super().__init__(meter)
        self._begun: float | None = None  # of the first scene: what comes before, as compiling, is no progress
        self._next = 0.0

    def show(self, step: Step) -> None:
        now = time.monotonic()
        if step.kept:
            return
        if self._begun is None:
            self._begun, self._next = now, now + _FIRST_LINE_S
        if now >= self._next:
            words = ", ".join([f"{self.meter.done} of {self.meter.items} items", *self.meter.words()])
            typer.echo(f"synthscape: {words}", err=True)
            self._next = now + min(max(_FIRST_LINE_S, _RARER * (now - self._begun)), _RAREST_S)


class _Events(_View):
    """JSON lines on stdout."""

    def __init__(self, meter: Meter, spec: Spec):
        super().__init__(meter)
        self._path = spec.output.dir
        self._next: float | None = None  # when progress is told next; not before it has begun

    def show(self, step: Step) -> None:
        meter, now = self.meter, time.monotonic()
        if self._next is None:
            self._next = now + _EVENT_S
            tell("begin", path=self._path, items=meter.items, shards=meter.shards, kept=meter.kept)
        elif now >= self._next:
            _, scenes, real_time = meter.rates()
            left = meter.left_s()
            tell(
                "progress",
                items=meter.done,
                failed=meter.failed,
                scenes_per_s=round(scenes, 2),
                x_real_time=round(real_time, 1),
                left_s=None if left is None else round(left, 1),
            )
            self._next = now + _EVENT_S
        if step.shard is not None:
            tell("shard", shard=step.shard, items=meter.shard_items(step.shard))


class _Bar(_View):
    """A bar at a terminal."""

    def __init__(self, meter: Meter, show: Callable[[], None]):
        super().__init__(meter)
        self._show = show

    def show(self, step: Step) -> None:
        self._show()


@contextmanager
def watched(
    spec: Spec, *, shards: Collection[int] | None = None, overwrites: bool = False, json: bool = False
) -> Iterator[_View]:
    """Give what an engine tells its steps to; an interruption gets a note that says how to go on.

    Args:
        spec: what is rendered.
        shards: only these of its shards; None for all.
        overwrites: what is there is removed first.
        json: print events instead of a bar or lines.
    """
    meter = Meter(spec, shards)
    try:
        if json:
            yield _Events(meter, spec)
        elif sys.stderr.isatty():
            with _bar("rendering", meter.items) as update:
                yield _Bar(meter, lambda: update(meter.done, " · ".join(meter.words())))
        else:
            yield _Lines(meter)
    except (Stopped, KeyboardInterrupt) as stop:
        begun = meter.kept is not None
        command = "the same command without --overwrite" if overwrites and begun else "the same command"
        finished = f" ({meter.finished} of {meter.items} items are finished)" if begun else ""
        stop.add_note(f"{command} goes on from here{finished}")
        raise


@contextmanager
def counted(what: str, total: int) -> Iterator[Callable[[int], None] | None]:
    """A plain bar at a terminal, and nothing elsewhere; give what is told how many more are done."""
    if not sys.stderr.isatty():
        yield None
        return
    with _bar(what, total) as update:
        done = 0

        def add(n: int) -> None:
            nonlocal done
            done += n
            update(done, "")

        yield add


@contextmanager
def _bar(what: str, total: int) -> Iterator[Callable[[int, str], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[words]}", markup=False))
    with Progress(*columns, console=(console := Console(stderr=True)), transient=True) as bar:
        console.show_cursor(True)  # a second Ctrl-C must not leave the terminal without one
        task: TaskID = bar.add_task(what, total=total, words="")
        yield lambda done, words: bar.update(task, completed=done, words=words)


@contextmanager
def failing_told(json: bool) -> Iterator[None]:
    """With ``--json``, tell of errors and interruptions as events too."""
    try:
        yield
    except (SynthscapeError, OSError, MemoryError, Stopped, KeyboardInterrupt) as error:
        if json:
            tell("interrupted" if isinstance(error, Stopped | KeyboardInterrupt) else "error", message=said(error))
        raise


def tell(event: str, **content: Any) -> None:
    """Print an event: one line of JSON on stdout, at once."""
    from json import dumps

    print(dumps({"event": event, **content}), flush=True)


def _duration(seconds: float) -> str:
    """In words.

    >>> [_duration(s) for s in (42, 600, 20_000, 400_000)]
    ['42 s', '10 min', '5.6 h', '4.6 days']
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 90 * 60:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 36 * 3600 else f"{seconds / 86400:.1f} days"
