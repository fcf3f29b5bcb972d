"""The study of a tuning job: what to try next, what trials measured, and which of them is best."""
