"""From a configuration to a Policy: names become plugins, and whatever was not said keeps its default."""
