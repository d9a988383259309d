package app

import (
	"runtime/debug"
	"strings"
)

// Version returns the version of this program, such as 0.1.0: that of the tag from which it was
// built. Between two tags it has the time and the commit, too, and "devel" if the source was no
// checkout of Git.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" || info.Main.Version == "(devel)" {
		return "devel"
	}
	return strings.TrimPrefix(info.Main.Version, "v")
}
