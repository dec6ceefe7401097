"""The files of published data sets: on disk, on the web and, if enabled, in package registries."""
