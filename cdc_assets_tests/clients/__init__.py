"""Programs that nobody here wrote, at work on the sandbox; what they must see is in `expected.json`."""
