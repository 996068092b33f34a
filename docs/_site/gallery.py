"""What is in the gallery, in its order: from a first call to a study."""

from pathlib import Path

ORDER = (
    "black_box",
    "noisy_experiment",
    "robot",
    "network",
    "cluster",
    "resume",
    "compare",
    "sweep",
    "own_family",
    "own_study",
)


class Order:
    """A sort key of file names, as Sphinx-Gallery wants one."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def __call__(self, name: str) -> tuple[int, str]:
        """Where an example comes."""
        stem = Path(name).stem
        return (ORDER.index(stem) if stem in ORDER else len(ORDER), stem)

    def __repr__(self) -> str:
        return "<Order of the gallery>"  # the same each time, so that nothing is built again
