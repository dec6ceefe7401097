"""From a finished run to a published number: results, their page, and shipped weights."""
