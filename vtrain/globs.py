"""Globs, matched in time that grows with the length of the text alone, for any glob.

A glob is an automaton: a set of states, which each character of a text takes to another set.
"""

from __future__ import annotations

from collections.abc import Callable

Test = Callable[[str], object]
"""Whether a character is one that a state lets pass."""
MOST_STEPS = 10_000
"""Steps that are remembered from one character to the next."""


class Glob:
    """An automaton, made from left to right: state 0 is the first, `end` the last."""

    def __init__(self) -> None:
        self.end = 0
        self._free: list[list[int]] = [[]]
        self._moves: list[list[tuple[Test, int]]] = [[]]
        self._steps: dict[tuple[frozenset[int], str], frozenset[int]] = {}

    def state(self, free_from: int | None = None) -> int:
        """A new state, which is reached from another one without a character."""
        self._free.append([])
        self._moves.append([])
        if free_from is not None:
            self.join(free_from, len(self._free) - 1)
        return len(self._free) - 1

    def join(self, state: int, target: int) -> None:
        """Let a state be left for another one without a character."""
        self._free[state].append(target)

    def one(self, state: int, test: Test) -> int:
        """The state behind one character."""
        target = self.state()
        self._moves[state].append((test, target))
        return target

    def many(self, state: int, test: Test) -> int:
        """The state behind any number of characters."""
        loop = self.state(free_from=state)
        self._moves[loop].append((test, loop))
        return loop

    def folders(self, state: int, *, needs_one: bool = False) -> int:
        """The state behind any number of folders, each with its slash."""
        behind = self.one(self.many(state, anything), "/".__eq__)
        if not needs_one:
            self.join(state, behind)
        return behind

    def matches(self, text: str) -> bool:
        """Whether the glob stands for this text."""
        states = self._reachable({0})
        for letter in text:
            found = self._steps.get((states, letter))
            if found is None:
                moves = (move for state in states for move in self._moves[state])
                found = self._reachable({target for test, target in moves if test(letter)})
                if len(self._steps) >= MOST_STEPS:
                    self._steps.clear()
                self._steps[states, letter] = found
            if not found:
                return False
            states = found
        return self.end in states

    def _reachable(self, states: set[int]) -> frozenset[int]:
        """These states, and those that need no character."""
        found, waiting = set(states), list(states)
        while waiting:
            fresh = [target for target in self._free[waiting.pop()] if target not in found]
            found.update(fresh)
            waiting += fresh
        return frozenset(found)


def anything(_letter: str) -> bool:
    """Pass every character."""
    return True


def not_slash(letter: str) -> bool:
    """Pass what a folder's or a file's name may have."""
    return letter != "/"
