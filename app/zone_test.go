package app

import (
	"io/fs"
	"testing"
)

func TestZoneNamed(t *testing.T) {
	t.Parallel()
	links := map[string]string{
		"/etc/localtime": "/usr/share/zoneinfo/Europe/Berlin",
		"/etc/relative":  "../usr/share/zoneinfo/America/Argentina/Ushuaia",
		"/etc/mac":       "/var/db/timezone/zoneinfo/Asia/Tokyo",
		"/etc/own":       "/etc/zones/mine",
	}
	readlink := func(path string) (string, error) {
		if target, found := links[path]; found {
			return target, nil
		}
		return "", fs.ErrInvalid // a file that is no link, or none
	}
	for name, want := range map[string]string{
		"Europe/Berlin":                     "Europe/Berlin",
		":Europe/Berlin":                    "Europe/Berlin",
		"Etc/GMT-8":                         "Etc/GMT-8",
		"/usr/share/zoneinfo/Asia/Calcutta": "Asia/Calcutta",
		"/etc/localtime":                    "Europe/Berlin",
		":/etc/localtime":                   "Europe/Berlin",
		"/etc/relative":                     "America/Argentina/Ushuaia",
		"/etc/mac":                          "Asia/Tokyo",
		"/etc/own":                          "UTC",
		"/etc/file":                         "UTC",
		"":                                  "UTC",
		"Local":                             "UTC",
		"CET-1CEST,M3.5.0,M10.5.0/3":        "UTC",
		"Europe/Atlantis":                   "UTC",
		"../../etc/passwd":                  "UTC",
	} {
		if got := zoneNamed(name, readlink); got != want {
			t.Errorf("%q is %q, want %q", name, got, want)
		}
	}
}
