"""Where the files of a data set come from: the disk, the web, package registries."""
