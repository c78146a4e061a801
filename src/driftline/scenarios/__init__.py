"""Scenarios: scripts that call `torch.compile` themselves, several times, judged as they stand.

    UserScript ──► ScriptRecording, eager ───────────┐
               ──► ScriptRecording, eager, again     ├──► differences, event by event ──► ScriptResult
               ──► ScriptRecording, eager, rounded   │          ▲
               ──► ScriptRecording, compiled ────────┘          └── Rejudged: eager from the compiled run's own state

- `UserScript` (`script.py`): the text and the path of the file.
- `ScriptEvent` (`recording.py`): one outermost call of a compiled callable, one `backward()` or `autograd.grad()`
  outside of such calls, or the end of the script. Its *facts* say what a user could see after the event, by path
  (`output[0]`, `input x`, `self.history`, `global total`); `shared` are pairs of paths whose tensors overlap in memory.
- `ScriptRecording`: the events of one run of the script, in a folder of the job: `events.jsonl`, one line for each
  event, and `contents.bin`, the bytes of tensors. Both are written while the script runs: what came before a crash is
  there.
- `Difference` (`difference.py`): what one fact should be and is. Its id follows from its kind, its event and its path,
  never from a sentence.

The parent asks `RECORD` and `REJUDGE` (`requests.py`) of workers, each in a fresh process. There `play.py` executes the
script as `__main__`, `recorder.py` stands around every compiled callable, `walk.py` reads what is reachable from it.

What scripts compile with beside `torch.compile` is known in `entries/`: one file for each entry point, with what the
entry point promises.

Eager runs say what should happen: two with different contents of fresh memory (what differs between them is not judged)
and one whose results are moved by one rounding step each (what moves there is not compared exactly). Numbers that
differ by more than a few roundings are judged by the oracle, and exact differences are confirmed, from the compiled
run's own state: the script runs compiled once more, and before the event in question the process forks; the child goes
on without the compiler, records the tape that the oracle plays, and observes the event. So nothing is held against the
compiler that follows from an earlier, legal rounding. Where the runs have gone different ways, judging stops.
"""
