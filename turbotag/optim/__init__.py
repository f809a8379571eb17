"""One file for each optimizer, one problem interface, one trace and one certificate for all."""
