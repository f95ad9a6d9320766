"""Who is let in, as whom, and to what: credentials, impersonation, rights, and the log of it."""
