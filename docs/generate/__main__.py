"""`python -m docs.generate` writes every generated file anew."""

from docs.generate import write

if __name__ == "__main__":
    write()
