"""The trees of accounts: who may start what, whose turn it is, and what is owed. Pure, and in whole numbers only."""
