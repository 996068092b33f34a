"""The paper's studies, one folder each, and two of ours: `untuned` and `controller`."""
