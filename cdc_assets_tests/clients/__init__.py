"""Programs that nobody here wrote, at work on the sandbox. What they must see: `expected.json`."""
