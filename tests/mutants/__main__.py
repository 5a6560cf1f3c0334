"""`python -m tests.mutants [WORD ...]`: try every mutant, or those whose name has all the words."""

import sys
from concurrent.futures import ThreadPoolExecutor

from tests.mutants.catalog import MUTANTS
from tests.mutants.mutant import Mutant, NotApplicable
from tests.mutants.trial import Project, Unusable

#: Tests of real time need a core to themselves, and the machines this runs on have two.
_AT_ONCE = 2


def main(words: list[str]) -> int:
    """Print a line for each mutant; return 0 if all were noticed."""
    chosen = [m for m in MUTANTS if all(word in m.name for word in words)]
    if not chosen:
        _say("no mutant has all these words in its name")
        return 2
    with Project.as_it_is() as project, ThreadPoolExecutor(_AT_ONCE) as threads:
        return _try(chosen, project, threads)


def _try(chosen: list[Mutant], project: Project, threads: ThreadPoolExecutor) -> int:
    selections = list(dict.fromkeys(part for mutant in chosen for part in _parts(mutant.tests)))
    _say(f"{len(selections)} selections of tests, with nothing taken out:")
    judged = threads.map(lambda tests: _is_sound(project, tests), selections)
    sound = dict(zip(selections, judged, strict=True))
    if None in sound.values():
        return 1
    tried = [mutant for mutant in chosen if any(sound[part] for part in _parts(mutant.tests))]
    width = max(len(mutant.name) for mutant in chosen)
    _say(f"\n{'without':{width}}  seconds  noticed by")
    noticed = list(threads.map(lambda mutant: _is_noticed(project, mutant, width), tried))
    _say(
        f"\n{len(chosen)} mutants: {noticed.count(True)} noticed, {noticed.count(False)} survived, "
        f"{noticed.count(None)} unusable, {len(chosen) - len(tried)} not tried for want of a server"
    )
    return 0 if all(noticed) else 1


def _parts(tests: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Split a selection, so that files that several mutants name are run once."""
    if any(word.startswith("-") for word in tests):
        return [tests]
    return [(word,) for word in tests]


def _is_sound(project: Project, tests: tuple[str, ...]) -> bool | None:
    """Tell whether these tests pass, and are not all skipped; ``None`` if they do not."""
    said = ""
    # once more where one failed: it may have been by chance, on a machine that was busy
    for _ in range(2):
        try:
            verdict = project.test(tests)
        except Unusable as error:
            said = str(error)
            continue
        if verdict.failed is None:
            how = "" if verdict.passed else ": all skipped"
            _say(f"{verdict.seconds:7.1f}  {' '.join(tests)}{how}")
            return verdict.passed > 0
        said = f"{verdict.failed}\n{verdict.output[-2000:]}"
    _say(f"FAILED   {' '.join(tests)}: {said}")
    return None


def _is_noticed(project: Project, mutant: Mutant, width: int) -> bool | None:
    try:
        verdict = project.test_without(mutant)
    except (NotApplicable, Unusable) as error:
        _say(f"{mutant.name:{width}}           UNUSABLE: {error}")
        return None
    by = verdict.failed or "NOBODY: it survived"
    _say(f"{mutant.name:{width}}  {verdict.seconds:7.1f}  {by}")
    return verdict.failed is not None


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
