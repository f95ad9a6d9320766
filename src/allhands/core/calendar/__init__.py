"""Time: when what runs ends, when what waits can expect to start, and what room is kept for whom until then."""
