"""Who may do what: identities, requests and rules as values, and the function that decides. Pure."""
