"""``python -m trueneg``: the command line, for launchers such as ``torchrun -m trueneg``."""

from trueneg.cli import main

if __name__ == "__main__":
    main()
