"""Read models for people: decoded objects in, rows and stories out. No I/O, no clock, no new words for reasons."""
