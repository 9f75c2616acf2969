"""`python -m defib` is the same as `defib`."""

from defib.cli.main import main

if __name__ == "__main__":
    main()
