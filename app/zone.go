package app

import (
	"os"
	"path/filepath"
	"strings"

	"stepboard/models"
)

// machineZone returns the IANA name of the machine's time zone: of TZ, or of the link /etc/localtime, and UTC if neither
// names one.
func machineZone() string {
	name, set := os.LookupEnv("TZ")
	if !set {
		name = "/etc/localtime"
	}
	return zoneNamed(name, os.Readlink)
}

// zoneNamed returns the IANA name of the zone that a value of TZ names, by itself or by the path of a file or a link, or UTC.
func zoneNamed(name string, readlink func(path string) (string, error)) string {
	name = strings.TrimPrefix(name, ":")
	if filepath.IsAbs(name) {
		if target, err := readlink(name); err == nil {
			name = target
		}
	}
	if _, zone, found := strings.Cut(name, "zoneinfo/"); found {
		name = zone
	}
	if models.CheckZone("", name) != nil {
		return "UTC"
	}
	return name
}
