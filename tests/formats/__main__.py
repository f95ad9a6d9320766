"""`python -m tests.formats`: writes down what this release keeps in the API."""

from tests.formats import main

main()
