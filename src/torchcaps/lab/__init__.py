"""The lab: one page in the browser, and the small server that answers it from the library."""
