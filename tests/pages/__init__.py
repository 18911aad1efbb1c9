"""The pages of `docs`, and the README: their examples run, and their statements are true.

Pages whose tests need what another room sets up are tested there: `docs/events/kafka.md` in `tests/kafka`,
those on E-code in `tests/ecode`.
"""
