"""Our own paraphrases of what each task asks; docs/tasks.md says what the fields stand for."""

from __future__ import annotations

from typing import Final

PHRASES: Final[dict[str, tuple[str, ...]]] = {
    "strong_detection": (
        "List all animal sounds in the recording, one per line: onset and offset in seconds, lowest and "
        "highest frequency in Hz, species. If there are none, answer {none}.",
        "Which species are heard when, and at what frequencies? Write a line for each call with its times in "
        "seconds, its frequency range in Hz and the species, or {none} for a recording without calls.",
        "Annotate this recording: for every audible call a line with start-end in s, low-high in Hz, and the "
        "species' name. Write {none} if no animal calls.",
        "Find the animal calls. Report each on its own line as times (s), frequency bounds (Hz), species; "
        "report {none} if nothing is found.",
    ),
    "detect_diarize": (
        "Who calls when? For each call write a line: onset and offset in seconds, lowest and highest "
        "frequency in Hz, species, caller. Number the callers of a species by their first call, as species_1, "
        "species_2. If there are none, answer {none}.",
        "List every call with its caller, one per line: times in s, frequency bounds in Hz, species, and the "
        "individual as species_number, counted from 1 in order of appearance. Without calls, write {none}.",
        "Separate the animals in this recording. Each call gets a line with start-end in seconds, low-high in"
        " Hz, its species and its individual: species_1 for the first that is heard, then species_2 and so on; {none} "
        "stands for no calls at all.",
        "Annotate calls and callers: one line a call, with its times (s), frequency range (Hz), species and a"
        " label of the caller that stays the same throughout: species_number, in order of first calls. Answer "
        "{none} if no animal is heard.",
    ),
    "few_shot_detection": (
        "Each lettered sound is given by example calls.\n"
        "{examples}\n"
        "{background}\n"
        "Scene: {query}\n"
        "Which of the lettered sounds are heard in the scene? Answer with their letters in alphabetical "
        "order, separated by commas, or with {none} if there are none.",
        "Learn these sounds first:\n"
        "{examples}\n"
        "{background}\n"
        "Now listen to this recording: {query}\n"
        "Give every letter whose sound occurs in it, in alphabetical order with commas between them. If none "
        "occurs, write {none}.",
        "Sounds to look for:\n"
        "{examples}\n"
        "{background}\n"
        "Recording to search: {query}\n"
        "One, several or none of the sounds may be there. List the letters of those that are (alphabetical, "
        "comma-separated), else {none}.",
        "Examples:\n"
        "{examples}\n"
        "{background}\n"
        "Test recording: {query}\n"
        "Compare it with the examples and answer with all letters that apply, sorted and separated by commas."
        " Where no letter applies the answer is {none}.",
    ),
    "few_shot_scenes": (
        "In this recording the call of interest is heard at {times}: {examples}\n"
        "{background}\n"
        "When is the same type of call heard in the next one? {query}\n"
        "Give onset and offset of each call in seconds, or {none}.",
        "Annotated recording: {examples}\n"
        "Its calls of one type are at {times}.\n"
        "{background}\n"
        "Recording without annotation: {query}\n"
        "Annotate the calls of that type in it in the same way. If it has none, answer {none}.",
        "Learn one type of call from the times {times} of this scene: {examples}\n"
        "{background}\n"
        "Then find it in this scene: {query}\n"
        "List all its times in seconds; write {none} if it does not occur.",
        "Support: {examples}\n"
        "Calls in the support: {times}.\n"
        "{background}\n"
        "Query: {query}\n"
        "At what times does the query contain calls of the same type? Without any the answer is {none}.",
    ),
    "call_type_mcq": (
        "Every letter stands for a call type.\n"
        "{examples}\n"
        "Which of them is this call? {query}\n"
        "Answer with one letter. {or_none}",
        "Examples of call types:\n"
        "{examples}\n"
        "Call to identify: {query}\n"
        "Give the letter of the example that is of the same type. {or_none}",
        "Options:\n"
        "{examples}\n"
        "Query: {query}\n"
        "Which option has the query's call type? Choose from {letters}. {or_none}",
        "Compare the last call with those before it.\n"
        "{examples}\n"
        "Last call: {query}\n"
        "Whose call type does it share? Reply with one letter of {letters}. {or_none}",
    ),
    "call_type_matching": (
        "Named call types with examples:\n"
        "{examples}\n"
        "Which of these types is the following call? {query}\n"
        "Answer with its name. {or_none}",
        "Learn the names of these calls:\n"
        "{examples}\n"
        "Then name this one: {query}\n"
        "The names to choose from are: {options}. {or_none}",
        "Reference calls:\n"
        "{examples}\n"
        "Unknown call: {query}\n"
        "Under which name do calls like the unknown one stand above? {or_none}",
        "Call types:\n{examples}\nQuery: {query}\nMatch the query to a call type and write that type's name. {or_none}",
    ),
    "species_matching": (
        "Species with examples of their sounds:\n"
        "{examples}\n"
        "Which of these species is heard here? {query}\n"
        "Answer with its name. {or_none}",
        "Learn these species by ear:\n"
        "{examples}\n"
        "Then identify this animal: {query}\n"
        "The species to choose from are: {options}. {or_none}",
        "Reference recordings:\n"
        "{examples}\n"
        "Unknown recording: {query}\n"
        "Which reference species made it? Write the species' name. {or_none}",
        "Candidates:\n"
        "{examples}\n"
        "Query: {query}\n"
        "Match the query to a candidate and give the name of that species. {or_none}",
    ),
    "call_type_binary": (
        "Examples of one call type: {examples}\n"
        "{background}\n"
        "Scene: {query}\n"
        "Is this call type heard in the scene? Answer {yes} or {no}. {ask_times}",
        "Listen for calls like these: {examples}\n"
        "{background}\n"
        "Is there one in this recording? {query}\n"
        "Reply with {yes} or {no}. {ask_times}",
        "Call type: {examples}\n"
        "{background}\n"
        "Recording: {query}\n"
        "Does the recording contain a call of that type, {yes} or {no}? {ask_times}",
        "All of these are of the same call type: {examples}\n"
        "{background}\n"
        "Decide whether it occurs in what follows: {query}\n"
        "Write {yes} if it does, {no} if not. {ask_times}",
    ),
    "call_type_same_different": (
        "First call: {first}\nSecond call: {second}\nAre they of the same call type? Answer {yes} or {no}.",
        "Here are two calls. {first} {second}\nDo both belong to one call type? Reply with {yes} or {no}.",
        "Compare {first} with {second}.\nIs it the same type of call both times, {yes} or {no}?",
        "Sound 1: {first}\n"
        "Sound 2: {second}\n"
        "Write {yes} if the two are calls of the same type, and {no} if their types differ.",
    ),
    "counting": (
        "Examples of one call type: {examples}\n"
        "{background}\n"
        "Scene: {query}\n"
        "How many calls of this type are in the scene? Answer with a number, 0 if there are none. {ask_times}",
        "Listen for calls like these: {examples}\n"
        "{background}\n"
        "Count them in this recording: {query}\n"
        "Give their number; it may be 0. {ask_times}",
        "Call type: {examples}\n"
        "{background}\n"
        "Recording: {query}\n"
        "How often is that call heard? Reply with a number from 0 on. {ask_times}",
        "All of these are of the same call type: {examples}\n"
        "{background}\n"
        "What is the number of such calls here? {query}\n"
        "The answer is a whole number, 0 for none. {ask_times}",
    ),
}
