"""Files that go into the packages vtrain makes; they run where the trainer runs, on Python 3.7 and later."""
