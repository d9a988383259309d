package app

// Version is the version of this release.
const Version = "0.1.0"
