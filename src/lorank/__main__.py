"""`python -m lorank` is the command `lorank`."""

from lorank.cli import main

if __name__ == "__main__":
    main()
