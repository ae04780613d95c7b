int two(void) { return 2; }
