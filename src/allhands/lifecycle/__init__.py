"""How objects live: pure machines that look at what is there and say what to do next. They never do it themselves."""
