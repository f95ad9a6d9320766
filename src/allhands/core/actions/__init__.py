"""What a cycle does, one file each: allocate, grow, reserve and backfill, preempt and reclaim, release."""
