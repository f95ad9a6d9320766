"""Other systems' words, translated into ours by pure functions, one file a system. A dialect decides nothing."""
