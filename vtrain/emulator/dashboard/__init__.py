"""Pages about the jobs of this machine, for a browser: `vtrain dashboard`. They read, and change nothing.

Every page is whole without JavaScript; the script of the pages keeps them up to date.
"""
