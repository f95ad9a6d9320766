"""What turns pure decisions into deeds: watching, queueing, retrying, carrying out. It decides nothing itself."""
