package app

// Version is this release.
const Version = "0.1.0"
