"""The version, which every module can import from here without importing the package's public interface."""

__version__ = "0.1.0"
