"""Every way to be hurt that we know, dealt out at random and counted: ``make faults``."""
