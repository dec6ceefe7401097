"""From a run that has ended to a published number: results, their page, and shipped weights."""
