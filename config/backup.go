package config

import (
	"errors"
	"fmt"
	"net/url"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

// bucketName matches the name of an S3 bucket.
var bucketName = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$`)

// CheckBackupAddress returns an error unless a text is an address of copies, s3://bucket/prefix or
// file:///folder. The error does not show the text, which may hold a key.
func CheckBackupAddress(text string) error {
	u, err := url.Parse(text)
	switch {
	case strings.Contains(text, "@"):
		return errors.New("must have no keys in it: set backup.access_key and backup.secret_key, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
	case err != nil || strings.ContainsAny(text, "?#") || u.Opaque != "":
	case u.Scheme == "s3" && bucketName.MatchString(u.Host):
		return nil
	case u.Scheme == "file" && u.Host == "" && path.Clean("/"+u.Path) != "/":
		return nil
	}
	return errors.New("must be s3://bucket/prefix, or file:// and the absolute path of a folder, such as file:///mnt/backup")
}

// check returns an error if the settings don't fit each other, or the data folder.
func (b Backup) check(dataDir string) error {
	if (b.AccessKey == "") != (b.SecretKey == "") {
		return errors.New("backup.access_key: is set beside backup.secret_key, or neither of them")
	}
	if u, err := url.Parse(b.Endpoint); err != nil || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
		return errors.New("backup.endpoint: must have no user, path, query or fragment")
	}
	if b.To == "" {
		return nil
	}
	if dataDir == "" {
		return errors.New("backup.to: needs data.dir, whose database is copied; Redis and Postgres have their own backups")
	}
	if err := CheckBackupAddress(b.To); err != nil {
		return fmt.Errorf("backup.to: %w", err)
	}
	u, err := url.Parse(b.To)
	if err != nil || u.Scheme != "file" {
		return nil //nolint:nilerr // it was checked above
	}
	if key := b.keyOfS3(); key != "" {
		return fmt.Errorf("%s: is for S3, but backup.to is a folder", key)
	}
	if dataDir, err = filepath.Abs(dataDir); err != nil {
		return fmt.Errorf("data.dir: %w", err)
	}
	if within, err := filepath.Rel(dataDir, filepath.FromSlash(u.Path)); err == nil && filepath.IsLocal(within) {
		return errors.New("backup.to: is in the data folder, with which it would be lost: name a folder on another disk")
	}
	return nil
}

// requireTo returns an error if settings of copies are given that nothing is copied with. restore
// takes them without backup.to.
func (b Backup) requireTo() error {
	if key := b.keyOfS3(); key != "" && b.To == "" {
		return fmt.Errorf("%s: is for backup.to, which must be set, too", key)
	}
	return nil
}

// keyOfS3 returns the key of a setting of S3 that is set; empty for none.
func (b Backup) keyOfS3() string {
	for _, s := range []struct{ key, value string }{{"access_key", b.AccessKey}, {"endpoint", b.Endpoint}, {"region", b.Region}} {
		if s.value != "" {
			return "backup." + s.key
		}
	}
	return ""
}
