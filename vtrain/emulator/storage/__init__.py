"""Cloud Storage's JSON API over the local buckets: `vtrain emulator storage`.

An object is a plain file in its bucket's folder, so what a job writes below `/gcs/NAME` is an object at
once, and an object is a file that a job can read. What the API knows beside the content (generation,
checksums, metadata) lies in `storage/` below vtrain's home.
"""
