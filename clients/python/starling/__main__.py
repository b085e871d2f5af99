"""Runs the program `starling`: the command of that name in a wheel that contains the program, and `python3 -m starling`."""
import os
import sys

from .daemon import find_program
from .errors import Error


def main():
    try:
        program = find_program()
    except Error as error:
        sys.exit(f"starling: {error}")
    os.execv(program, [program, *sys.argv[1:]])


if __name__ == "__main__":
    main()
