"""The machine of JobFlows: Jobs that are made one after the other, as they depend on each other."""
