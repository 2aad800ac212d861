"""What several tests share: verbs as values, bodies in memory, bounded waits, a look for what was left behind."""
