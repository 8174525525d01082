"""The commands of iowatch, by what they are about."""
