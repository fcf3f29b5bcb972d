"""Pages about the jobs of this machine, for a browser: `vtrain dashboard`. They read, and change nothing.

Every page is whole without JavaScript; the script of the pages keeps them up to date.
"""

OWN_PAGES = frozenset({"", "jobs", "compare", "dashboard"})
"""First parts of the paths of pages, for `Admission.pages`: so the pages can load their parts."""
