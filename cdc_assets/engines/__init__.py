"""Where the heavy work happens: two engines behind one door."""
