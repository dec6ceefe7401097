"""The lab: a page in the browser, and the local server behind it that runs the networks."""
